"""What requests used and cost: prices, the usage ledger and its reports."""
