"""The usage and the cost of requests: prices, the usage ledger and its reports."""
