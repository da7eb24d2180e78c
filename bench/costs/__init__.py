"""Counts exactly what one request executes in the gateway, and compares it with the fixed numbers in bench/costs.json."""
