"""Stored objects: responses and conversations that the gateway keeps for their account."""
