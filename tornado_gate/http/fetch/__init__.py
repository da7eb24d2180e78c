"""The only fetcher of URLs that callers and upstreams supply: callers' images, audio, videos and files (http(s) or data: URLs),
files that upstreams have made, and webhooks.

It prevents server-side request forgery: a caller must not reach through the gateway what it cannot reach itself. The URL is
parsed once, by the library that also connects; its name is resolved once, every address is checked, and the connection is
made to a checked address only, so DNS rebinding has no effect. Each redirect is checked again. No cookies or keys.
With conf's ``fetch.proxy`` the proxy resolves the name and connects, so the proxy must refuse private addresses too.
Bytes, seconds and redirects are limited while data arrives; announced sizes are not trusted.

addresses    which addresses are allowed; parsing of URLs
inline       data: URLs
connections  connections to checked addresses; response bodies
opened       files that are read while they arrive
fetcher      Fetcher: fetch, open, post; RequestFetcher: the bounds of one request
shares       how accounts share places and memory

Knows no wire format. No error message contains a resolved address.
"""

from tornado_gate.codec.media_types import parse_image_size, sniff
from tornado_gate.config.model import FetchRules
from tornado_gate.http.fetch.addresses import DENIED_PORTS, is_allowed, resolve_with_system
from tornado_gate.http.fetch.fetcher import FetchedFile, Fetcher, PostFailed, RequestFetcher
from tornado_gate.http.fetch.opened import OpenedFile

__all__ = [
    "DENIED_PORTS",
    "FetchRules",
    "FetchedFile",
    "Fetcher",
    "OpenedFile",
    "PostFailed",
    "RequestFetcher",
    "is_allowed",
    "parse_image_size",
    "resolve_with_system",
    "sniff",
]
