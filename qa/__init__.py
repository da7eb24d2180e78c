"""Suites that examine vendors, clients and whole systems: `make qa` runs them, `make test` runs representatives of each."""
