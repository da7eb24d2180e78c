"""HTTP: server, client, fetcher, WebSockets, and the mapping of upstream failures to errors."""
