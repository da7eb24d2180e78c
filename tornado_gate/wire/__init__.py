"""Wire formats. Each package holds the server half (used by a format plugin) and the client half (used by a provider)."""
