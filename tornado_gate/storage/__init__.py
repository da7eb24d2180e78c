"""Data on disk: files, keys, conversation state."""
