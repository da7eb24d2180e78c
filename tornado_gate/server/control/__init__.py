"""What a process does as one of several nodes that share a PostgreSQL database."""
