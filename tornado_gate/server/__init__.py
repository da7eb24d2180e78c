"""The serving process: it creates its parts, listens, and dispatches each request to the part that serves it."""
