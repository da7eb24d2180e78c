"""The fields of Gemini's routes: checks, texts for guards, names of stored objects, and descriptions."""
