"""The serving process: creates its parts, listens, and dispatches each request to the part that answers it."""
