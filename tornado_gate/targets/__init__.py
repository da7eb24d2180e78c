"""Targets: which target of a model is tried next, and the health of targets."""
