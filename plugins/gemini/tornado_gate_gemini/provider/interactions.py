"""Requests of the Interactions API, which are forwarded verbatim: a new interaction, and requests about one by its id.

Source: google-genai 3.4, _gaos/interactions.py; https://ai.google.dev/gemini-api/docs/interactions-breaking-changes-may-2026 for
the header ``Api-Revision``; read 2026-11-22.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final
from urllib.parse import quote, urlencode

from tornado_gate import patch_json
from tornado_gate.types import Call, StoredObjectRequest, UpstreamRequest, VerbatimRequest
from tornado_gate_gemini.wire.interactions import PATH

_REVISION: Final = "api-revision"
"""The caller's revision of the API, which decides the shape of the response."""
_SSE_QUERY: Final = "?alt=sse"


def build_request(
    call: Call, request: VerbatimRequest | StoredObjectRequest, headers: Mapping[str, str]
) -> UpstreamRequest:
    """The upstream request. `headers` are the headers of every request to this upstream."""
    sent = {_REVISION: call.headers[_REVISION], **headers} if _REVISION in call.headers else dict(headers)
    url = call.target.base_url + PATH
    if isinstance(request, VerbatimRequest):
        raw = request.raw
        if request.body.get("model") != call.target.upstream_model:
            raw = patch_json(raw, {"model": call.target.upstream_model}, request.body)
        query = _SSE_QUERY if request.path.endswith(_SSE_QUERY) else ""
        return UpstreamRequest(url=url + query, headers=sent, body=raw)
    del sent["content-type"]
    url += f"/{quote(request.reference.id, safe='')}" + (f"/{request.action}" if request.action else "")
    query = f"?{urlencode(request.query)}" if request.query else ""
    return UpstreamRequest(method=request.method, url=url + query, headers=sent)
