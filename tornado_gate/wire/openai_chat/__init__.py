"""OpenAI's chat completions: what is on the wire, both ways. Pure; checks nothing that a caller must be told.

The server half (`parse_request`, `render_response`, `render_chunks`) is for the format plugin, the client half
(`render_request`, `parse_response`, `parse_chunks`) for providers that speak this format.
"""
