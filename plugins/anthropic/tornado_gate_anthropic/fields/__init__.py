"""The fields of Anthropic's routes: checks, texts for guards, names of stored objects, and descriptions."""
