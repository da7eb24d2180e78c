"""HTTP/1.1 on asyncio transports, parsed by llhttp: the fast front (`server`) and the fast client (`client`)."""
