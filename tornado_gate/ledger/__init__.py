"""The usage ledger: what each request used and cost, written in batches beside the requests, and reports of it."""
