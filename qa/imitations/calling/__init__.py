"""What the imitations of several vendors share: planned answers, a server, the callers' formats, and the run of all scenarios."""
