"""Limits and budgets: how they are counted, in this process, on this machine and in Redis or Valkey, and who is admitted."""
