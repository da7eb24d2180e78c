"""What is kept on disk: files, keys, conversation state."""
