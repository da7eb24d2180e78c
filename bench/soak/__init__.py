"""`make soak` and `make chaos`: mixed traffic whose every answer is checked, against an upstream that fails.

docs/contributing/testing.md describes them.
"""
