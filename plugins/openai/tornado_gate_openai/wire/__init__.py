"""OpenAI's wire formats: what parses a request or a response stands beside what renders it. No I/O."""
