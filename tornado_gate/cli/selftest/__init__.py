"""The command `selftest`: every route of a temporary gateway with the local provider. Only the command uses this package."""
