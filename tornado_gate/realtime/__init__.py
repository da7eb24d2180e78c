"""Realtime voice sessions: connecting a provider, relaying messages, limiting open sessions, and sessions without an upstream."""
