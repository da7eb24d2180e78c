"""The fields of OpenAI's routes: checks, texts for guards, names of stored objects, and descriptions."""
