"""Child processes that the tests talk to: the gateway itself, two upstreams, and Node."""
