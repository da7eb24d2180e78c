"""Conformance suites and schemas that others publish, run against the gateway.

``llm_comply`` checks the chat routes, ``autobahn`` the WebSocket code, ``exchanges`` every answer with ``schemas``: the vendors'
API descriptions and the types of their SDKs. The tests run all three; ``make conformance`` runs them too, and writes
docs/reference/conformance.md.
"""
