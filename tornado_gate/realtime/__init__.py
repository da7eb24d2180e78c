"""Realtime voice sessions."""
