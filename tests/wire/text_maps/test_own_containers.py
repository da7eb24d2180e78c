"""Texts that the gateway itself packs into opaque members: a caller who unpacks or packs them hides nothing from guards."""

from __future__ import annotations

import asyncio
import base64
import re
from typing import Any, Final

import orjson
import pytest

import tornado_gate_gemini.format
import tornado_gate_openai.format
from tornado_gate import sse
from tornado_gate.errors import InvalidField
from tornado_gate.guards.text_streams import guard_stream
from tornado_gate.guards.text_views import view_request, view_response
from tornado_gate.testing import iterate
from tornado_gate.types import GuardedText, Opaque, Span, find_spans
from tornado_gate.types.text_maps import TextMap
from tornado_gate_gemini.wire.generate.json_values import parse_signature, render_signature
from tornado_gate_openai.wire.responses.compaction import make_compaction_item, restore_items

SECRET: Final = "ann@example.org"
CIPHER: Final = "gAAAA" + "b3BhcXVl" * 20
REASONING: Final = {
    "type": "reasoning", "encrypted_content": CIPHER, "summary": [{"type": "summary_text", "text": f"Ask {SECRET}"}],
}  # fmt: skip


def find_map(plugin: Any, path: str) -> TextMap:
    (found,) = [route.texts for route in plugin.routes() if route.path == path and route.method == "POST"]
    assert found is not None
    return found


RESPONSES: Final = find_map(tornado_gate_openai.format, "/v1/responses")
GEMINI: Final = find_map(tornado_gate_gemini.format, "/v1beta/models/{model}:generateContent")


def redact(texts: list[GuardedText]) -> list[Span]:
    return find_spans(texts, re.compile(r"[\w.]+@[\w.]+"), lambda _match: '"***"')


def test_the_summary_of_a_compaction_is_seen_in_requests_and_answers() -> None:
    item = make_compaction_item("cmp_1", f"The user is {SECRET}.")
    request = view_request(RESPONSES, {"model": "m", "input": [item]})
    changed = request.apply(redact(request.texts))["input"]
    assert 'The user is "***"' in restore_items(changed)[0]["content"][0]["text"]
    response = view_response(RESPONSES, {"object": "response", "output": [item]})
    assert restore_items(response.apply(redact(response.texts))["output"])[0] == restore_items(changed)[0]


def test_a_compaction_in_an_odd_encoding_is_unread_for_guards_and_refused_by_the_format() -> None:
    item = make_compaction_item("cmp_1", f"The user is {SECRET}.")
    content = item["encrypted_content"]
    odd = {**item, "encrypted_content": content[:30] + "\n !" + content[30:]}
    with pytest.raises(InvalidField) as refused:
        restore_items([odd])
    assert refused.value.param == "input.0.encrypted_content"
    assert [path for path, _ in view_request(RESPONSES, {"input": [odd]}).unread] == ["input.0.encrypted_content"]


def test_a_streamed_compaction_has_the_replacement() -> None:
    item = make_compaction_item("cmp_1", f"The user is {SECRET}.")
    event = {"type": "response.output_item.done", "output_index": 0, "item": item, "sequence_number": 1}

    async def collect() -> bytes:
        async def review(texts: list[GuardedText]) -> list[Span]:
            return redact(texts)

        chunks = guard_stream(RESPONSES, iterate([sse.render_json(event)]), 254, review, lambda unread: None)
        return b"".join([chunk async for chunk in chunks])

    sent = orjson.loads(asyncio.run(collect()).partition(b"data: ")[2])
    assert 'The user is "***"' in restore_items([sent["item"]])[0]["content"][0]["text"]


def test_what_the_gateway_packs_into_a_signature_is_seen() -> None:
    signature = render_signature(Opaque(issuer="openai", value=REASONING))
    assert signature is not None
    part = {"text": "thinks", "thought": True, "thoughtSignature": signature}
    for view, body in (
        (view_request, {"contents": [{"role": "model", "parts": [part]}]}),
        (view_response, {"candidates": [{"content": {"role": "model", "parts": [part]}}]}),
    ):
        seen = view(GEMINI, body)
        changed = orjson.dumps(seen.apply(redact(seen.texts)))
        found = re.search(rb'"thoughtSignature":"([^"]+)"', changed)
        assert found is not None
        packed = parse_signature(found[1].decode())
        assert packed is not None
        assert packed.value == {**REASONING, "summary": [{"type": "summary_text", "text": 'Ask "***"'}]}


def test_signatures_that_are_only_data_are_not_texts() -> None:
    for value in ({"call": "call_" + "a" * 40}, CIPHER, {"encrypted_content": CIPHER}):
        signature = render_signature(Opaque(issuer="x", value=value))
        part = {"text": "", "thoughtSignature": signature}
        texts = view_request(GEMINI, {"contents": [{"role": "model", "parts": [part]}]}).texts
        assert [text.text for text in texts if text.kind != "name"] == []
    vendors = base64.b64encode(b"\x12\x34\xff signature of the vendor" * 6).decode()
    part = {"text": "", "thoughtSignature": vendors}
    texts = view_request(GEMINI, {"contents": [{"role": "model", "parts": [part]}]}).texts
    assert [text.text for text in texts if text.kind != "name"] == []
