"""HTTP and WebSocket connections, to callers and to upstreams."""
