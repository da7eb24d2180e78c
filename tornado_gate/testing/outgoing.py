"""The requests of a provider: the body in a comparable form, and the head."""

from __future__ import annotations

import json
from email import message_from_bytes
from typing import Any

from tornado_gate.codec.multipart import FormBody
from tornado_gate.testing.cases import Case
from tornado_gate.testing.differences import GUIDE, check_equal
from tornado_gate.types import Call, UpstreamRequest


async def read_outgoing(outgoing: UpstreamRequest) -> Any:
    """Return the body of an upstream request, in the shape of `ProviderContract.outgoing`."""
    if outgoing.json is not None or outgoing.body is None:
        return outgoing.json
    body = outgoing.body
    raw = body if isinstance(body, bytes) else b"".join([chunk async for chunk in body.chunks()])
    if isinstance(body, FormBody):
        return parse_form(body.content_type, raw)
    try:
        return json.loads(raw)
    except ValueError:
        return raw


def parse_form(content_type: str, raw: bytes) -> dict[str, Any]:
    """Return the fields of a form as strings, or as bytes if they are files. A repeated field is an array."""
    message = message_from_bytes(f"Content-Type: {content_type}\r\n\r\n".encode() + raw)
    fields: dict[str, list[Any]] = {}
    for part in message.walk():
        if part.is_multipart():
            continue
        data = part.get_payload(decode=True)
        assert isinstance(data, bytes)
        name = str(part.get_param("name", header="content-disposition"))
        fields.setdefault(name, []).append(data.decode() if part.get_filename() is None else data)
    return {name: values if len(values) > 1 else values[0] for name, values in fields.items()}


def check_head(case: Case, call: Call, outgoing: UpstreamRequest) -> None:
    """Compare method, path, headers and reported losses of an upstream request with the values in the case."""
    if case.method:
        check_equal(outgoing.method, case.method, f"{case.label}: another method than `method`.")
    path = outgoing.url.partition("?")[0]
    assert path.endswith(case.path), f"{case.label}: the URL {path} does not end with `path`, {case.path}. See {GUIDE}."
    sent = {name.lower(): value for name, value in outgoing.headers.items()}
    actual = {name: sent.get(name.lower()) for name in case.headers}
    check_equal(actual, dict(case.headers), f"{case.label}: other headers than `headers`.")
    if case.losses is not None:
        what = f"{case.label}: other fields are reported with call.drop_field than in `losses`."
        check_equal(sorted(call.losses), sorted(case.losses), what)
