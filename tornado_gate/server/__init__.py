"""The serving process: its parts joined, and each request handed to the part that answers it."""
