"""Anthropic's wire formats: the parser of each request and response is beside its renderer. No I/O."""
