"""Logs, metrics, and the redaction of secrets in both."""
