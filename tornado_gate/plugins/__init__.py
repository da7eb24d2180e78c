"""Plugins: discovery, checks against the hook specifications, one lane per plugin."""
