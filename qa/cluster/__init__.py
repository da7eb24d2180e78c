"""Tests of several nodes: real gateways, PostgreSQL and Valkey, with faults between a node and an engine. `make cluster`."""
