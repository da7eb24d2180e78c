"""Streams of events: their order, stages, server-sent events, time limits."""
