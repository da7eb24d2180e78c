"""The one fetcher of addresses that strangers give: clients' images, sounds, videos and files, over http(s) or inside a data:
URL; files that upstreams have made; and the places that are to be told when something has ended.

A client must not reach through the gateway what it cannot reach itself. So an address is parsed once, by the library that
also connects; its name is looked up once, every answer is checked, and the connection is made to a checked answer and to
nothing else, whatever the name says a moment later. Each redirect starts again. No cookies, keys or proxies; bytes,
seconds and redirects are capped while they arrive, because what a server announces need not be true.

addresses    which addresses may be reached, and how one is read
inline       data: URLs
connections  the connection to a checked address, and what comes over it
opened       a file that is read while it arrives
fetcher      Fetcher: fetch, open, post

Knows no wire format. No refusal names an address that was found.
"""

from tornado_gate.codec.media_types import parse_image_size, sniff
from tornado_gate.config.model import FetchRules
from tornado_gate.http.fetch.addresses import DENIED_PORTS, is_allowed, resolve_with_system
from tornado_gate.http.fetch.fetcher import FetchedFile, Fetcher, PostFailed
from tornado_gate.http.fetch.opened import OpenedFile

__all__ = [
    "DENIED_PORTS",
    "FetchRules",
    "FetchedFile",
    "Fetcher",
    "OpenedFile",
    "PostFailed",
    "is_allowed",
    "parse_image_size",
    "resolve_with_system",
    "sniff",
]
