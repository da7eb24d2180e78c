"""Streams: how the chunks and events of an answer pass through the gateway."""
