"""Anthropic: wire formats (`wire`), fields of routes (`fields`), and two plugins, `format` and `provider`.

`wire` parses and renders, without I/O. `format` and `provider` are two plugins of one distribution; neither imports the other.
"""
