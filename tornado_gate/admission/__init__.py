"""Admission of requests: limits, budgets, queues, bodies, overload, and each account's share of limited resources."""
