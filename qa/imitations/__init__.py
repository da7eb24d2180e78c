"""Strict imitations of the vendors' APIs: they refuse what the vendor refuses."""
