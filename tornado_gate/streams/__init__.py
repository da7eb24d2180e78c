"""Streams: processing of the chunks and events of a response."""
