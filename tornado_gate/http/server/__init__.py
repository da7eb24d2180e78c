"""The HTTP/1.1 server on asyncio transports and llhttp."""
