"""The origin of a request: the gateway's own machine, or elsewhere. The only definition of this rule.

It decides about everything that is open to this machine alone without a key or a token: /metrics and the first account of the
console. One sign is enough to count a request as from elsewhere, because proxies send different headers. A page of the internet
can also reach a loopback address through the browser of this machine, under the page's own name (DNS rebinding).
"""

from __future__ import annotations

from collections.abc import Iterable

from tornado_gate.config.exposure import is_loopback

_NAMES = frozenset(
    {
        "via",
        "cdn-loop",
        "front-end-https",
        "x-host",
        "x-http-host-override",
        "x-proto",
        "x-rewrite-url",
        "x-scheme",
        "x-url-scheme",
        "x-varnish",
    }
)
_PREFIXES = (
    "akamai-",
    "cf-",
    "cloudfront-",
    "fastly-",
    "ssl-",
    "x-akamai-",
    "x-appengine-",
    "x-arr-",
    "x-azure-",
    "x-envoy-",
    "x-original-",
    "x-real-",
    "x-ssl-",
    "x-sucuri-",
    "x-vercel-",
)
_FRAGMENTS = (
    "forward",
    "proxy",
    "client-ip",
    "clientip",
    "connecting-ip",
    "real-ip",
    "remote-addr",
    "remote-ip",
    "source-ip",
    "src-ip",
    "true-ip",
    "user-ip",
)


def is_forwarding_header(name: str) -> bool:
    """Return whether a header of this name is a sign of a proxy, for any value. Upper case and `_` for `-` do not matter.

    Headers of traces do not count: applications pass them on too.
    """
    name = name.lower().replace("_", "-")
    return name in _NAMES or name.startswith(_PREFIXES) or any(fragment in name for fragment in _FRAGMENTS)


def is_from_this_machine(*, listener: str, peer: str, host: str, version: str, header_names: Iterable[str]) -> bool:
    """Return whether only a program on this machine can have sent a request.

    `listener` is the host that the gateway listens on, and `peer` the address of the connection's other end. `host` is the header
    Host, "" if it is missing. `version` is the version of the request line: nginx sends HTTP/1.0 to the servers behind it, and no
    other sign. The name in `server.public_url` does not belong to this machine: a proxy that adds no header may keep the Host of
    its visitors. A peer without an address (of a Unix socket, where a proxy listens as a rule) is from elsewhere too.
    """
    names = (listener, peer, _remove_port(host))
    return version != "HTTP/1.0" and all(map(is_loopback, names)) and not any(map(is_forwarding_header, header_names))


def _remove_port(host: str) -> str:
    """Return `localhost` for `localhost:8080` and `::1` for `[::1]:8080`; "" for a text that is no host with a port."""
    if host.startswith("["):
        name, _, rest = host[1:].partition("]")
        return name if not rest or _is_port(rest) else ""
    name, colon, digits = host.partition(":")
    return name if not colon or _is_port(colon + digits) else ""


def _is_port(text: str) -> bool:
    return text[:1] == ":" and len(text) <= 6 and ((text[1:].isascii() and text[1:].isdigit()) or text == ":")
