"""Shared test support: gateways in and outside the test process, upstreams, clients, and child processes."""
