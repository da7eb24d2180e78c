"""The vendors' own SDKs against a real gateway: the embedded provider, and an upstream that is not ours."""
