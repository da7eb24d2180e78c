"""The server process: application, handlers, life cycle."""
