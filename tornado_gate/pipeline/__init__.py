"""The pipeline of one request, from its authentication to the end of its response."""
