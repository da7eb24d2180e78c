"""Requests through an HTTP proxy: a tunnel (CONNECT, RFC 9110 9.3.6) for https, the whole URL in the request line for http.

Imported only if conf names a proxy.
"""

from __future__ import annotations

import asyncio
import re
import socket
from typing import Final

from tornado_gate.config.network import Proxy
from tornado_gate.http.client.faults import ConnectError
from tornado_gate.http.client.request import (
    HeaderPairs,
    Origin,
    PreparedHead,
    parse_address,
    parse_exact_address,
    prepare_head,
)
from tornado_gate.types.value import replace

MAX_HEAD_BYTES: Final = 16 * 1024
_STATUS: Final = re.compile(rb"HTTP/1\.[01] ([0-9]{3})(?![0-9])")


def prepare_proxied_head(
    proxy: Proxy, method: str, url: str, headers: HeaderPairs, usual: HeaderPairs, *, exact: bool = False
) -> PreparedHead:
    """Return the head of a request that the proxy forwards. Through a tunnel, and past the proxy, it is the usual one.

    Raises ValueError as `prepare_head`.
    """
    address = (parse_exact_address if exact else parse_address)(url)
    if address.origin.scheme == "https" or not proxy.covers(address.origin.host):
        return prepare_head(method, url, headers, usual, find=lambda _: address)
    whole = replace(address, target=f"http://{address.host}{address.target}")
    head = prepare_head(method, url, headers, usual, find=lambda _: whole)
    return head._replace(start=head.start + _render_authorization(proxy))


async def open_tunnel(loop: asyncio.AbstractEventLoop, opened: socket.socket, proxy: Proxy, origin: Origin) -> None:
    """Ask the proxy for a tunnel to `origin` on the connected socket. Raises ConnectError, and OSError if the proxy leaves."""
    authority = f"{f'[{origin.host}]' if ':' in origin.host else origin.host}:{origin.port}"
    head = f"CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\n".encode("ascii") + _render_authorization(proxy)
    await loop.sock_sendall(opened, head + b"\r\n")
    answer = b""
    # The server behind a tunnel waits for the client's first bytes, so nothing can follow the head.
    while b"\r\n\r\n" not in answer:
        data = await loop.sock_recv(opened, 4096)
        answer += data
        if not data or len(answer) > MAX_HEAD_BYTES:
            raise ConnectError(f"the proxy {proxy.url} sent no complete answer to CONNECT")
    status = _STATUS.match(answer)
    if status is None or not status[1].startswith(b"2"):
        raise ConnectError(describe_refusal(proxy, int(status[1]) if status else 0))
    if not answer.endswith(b"\r\n\r\n"):
        raise ConnectError(f"the proxy {proxy.url} sent data before the tunnel was used")


def describe_refusal(proxy: Proxy, status: int) -> str:
    """Return why a proxy opened no tunnel, for the log."""
    if status == 407:
        return f"the proxy {proxy.url} refused the gateway's user or password (status 407); check `proxy` in the configuration"
    return f"the proxy {proxy.url} opened no tunnel (status {status}); check whether it allows this host and port"


def _render_authorization(proxy: Proxy) -> bytes:
    return f"Proxy-Authorization: {proxy.authorization}\r\n".encode("ascii") if proxy.login else b""
