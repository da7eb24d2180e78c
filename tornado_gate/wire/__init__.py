"""Wire formats, each written once: its server half (for a format plugin) beside its client half (for a provider)."""
