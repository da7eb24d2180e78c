"""Limits and budgets: the counters in this process, on this machine and in Redis or Valkey, and the admission of requests."""
