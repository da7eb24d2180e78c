"""Conversations by voice at upstreams that have OpenAI's ``/realtime``: where to connect, and with what. Pure.

Source: openai-python 3.52, resources/realtime/realtime.py (``connect``: the model in the query, the key as Bearer); the dialect
before it, "beta", is asked for with ``OpenAI-Beta: realtime=v1``.
"""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import quote, urlsplit, urlunsplit

from tornado_gate.types import Call, UpstreamRequest
from tornado_gate_openai.endpoints import REALTIME

BETA_HEADERS = {"openai-beta": "realtime=v1"}


def build_connection_request(call: Call, headers: Mapping[str, str], dialect: str) -> UpstreamRequest:
    """The handshake. `headers` are those of the account; `dialect` is what the upstream speaks."""
    base = urlsplit(call.target.base_url)
    scheme = {"http": "ws", "https": "wss"}[base.scheme]
    query = f"model={quote(call.target.upstream_model, safe='')}"
    url = urlunsplit((scheme, base.netloc, base.path + REALTIME, query, ""))
    kept = {name: value for name, value in headers.items() if name != "content-type"}
    return UpstreamRequest(
        method="GET", url=url, headers={**(BETA_HEADERS if dialect == "beta" else {}), **kept}, context=dialect
    )
