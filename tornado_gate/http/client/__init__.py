"""The pooled HTTP/1.1 client on asyncio transports and llhttp."""
