"""Realtime sessions at upstreams with OpenAI's ``/realtime``: the URL and headers of the connection. Pure.

Source: openai-python 3.52, resources/realtime/realtime.py (``connect``: the model in the query, the key as Bearer); the earlier
dialect, "beta", is requested with ``OpenAI-Beta: realtime=v1``.
"""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import quote, urlsplit, urlunsplit

from tornado_gate.types import Call, UpstreamRequest
from tornado_gate_openai.provider.endpoints import REALTIME

BETA_HEADERS = {"openai-beta": "realtime=v1"}


def build_connection_request(call: Call, headers: Mapping[str, str], dialect: str) -> UpstreamRequest:
    """The WebSocket handshake. `headers` are the account headers; `dialect` is the upstream's dialect."""
    base = urlsplit(call.target.base_url)
    scheme = {"http": "ws", "https": "wss"}[base.scheme]
    query = f"model={quote(call.target.upstream_model, safe='')}"
    url = urlunsplit((scheme, base.netloc, base.path + REALTIME, query, ""))
    kept = {name: value for name, value in headers.items() if name != "content-type"}
    return UpstreamRequest(
        method="GET", url=url, headers={**(BETA_HEADERS if dialect == "beta" else {}), **kept}, context=dialect
    )
