"""Realtime sessions by voice: connecting a provider, relaying messages, counting open sessions, answering without an upstream."""
