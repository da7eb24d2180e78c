"""Gateways with the guard: the texts that upstreams and callers receive, in every wire format and lane, whole and
streamed.
"""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import httpx

from tests.support.gateway import Gateway
from tests.support.scripts import chunk, completion, usage_chunk
from tests.support.upstream import DONE, Answer, Upstream, answer, sse
from tests.support.vendor_answers import TEXT
from tests.support.vendor_chats import ASK, VENDORS, ask_chat

HEADERS = {"authorization": "Bearer key-of-ann-0123456789", "anthropic-version": "2023-06-01"}
CHAT = {"model": "of-chat", "messages": [{"role": "user", "content": "Write to alice@example.com and EMP-123456."}]}


def send(gateway: Gateway, path: str, body: Any) -> httpx.Response:
    return httpx.post(gateway.url + path, json=body, headers=HEADERS, timeout=30, trust_env=False)


def say(scripted: Answer, text: str, *, piece: int = 0) -> Answer:
    """Return a vendor's response with another text, sent in chunks of some bytes."""
    body = "".join(step for step in scripted.steps if isinstance(step, str)).replace(TEXT, text)
    raw = body.encode()
    steps = [raw[start : start + piece] for start in range(0, len(raw), piece)] if piece else [raw]
    return Answer(steps=tuple(steps), status=200, headers=scripted.headers, path="", repeat=False)


def test_no_upstream_gets_what_the_caller_gets_back(restoring: Gateway, upstream: Upstream) -> None:
    faults = []
    for caller, vendor, streamed in itertools.product(VENDORS, VENDORS, (False, True)):
        upstream.reset()
        scripted = VENDORS[vendor](streamed=streamed, calls=False)
        upstream.script(say(scripted, "I wrote to [EMAIL_1], not to bob@example.org.", piece=700))
        exchange = ask_chat(caller, f"of-{vendor}", streamed=streamed)
        body = json.loads(json.dumps(exchange.body).replace(ASK, "Write to alice@example.com, alice@example.com!"))
        response = send(restoring, exchange.path, body)
        (sent,) = upstream.requests
        if sent.body.count(b"[EMAIL_1]") != 2 or b"alice" in sent.body:
            faults.append(f"{exchange.name}: the upstream got {sent.body[:300]!r}")
        if "alice@example.com" not in response.text or "bob@" in response.text or "EMAIL_1" in response.text:
            faults.append(f"{exchange.name}: the caller got {response.status_code} {response.text[:600]}")
    assert not faults, "\n".join(faults)


def test_values_are_found_when_they_arrive_letter_by_letter(restoring: Gateway, upstream: Upstream) -> None:
    text = "I wrote to [EMAIL_1], and paid with 4111 1111 1111 1111 for bob@example.org."
    faults = []
    for caller in VENDORS:
        upstream.script(
            answer(sse(*[chunk(content=letter) for letter in text], chunk(reason="stop"), usage_chunk(), DONE))
        )
        exchange = ask_chat(caller, "of-chat", streamed=True)
        body = json.loads(json.dumps(exchange.body).replace(ASK, "Write to alice@example.com"))
        response = send(restoring, exchange.path, body)
        restored = "".join(read_texts(response.text))
        if restored != "I wrote to alice@example.com, and paid with *** for ***.":
            faults.append(f"{caller}: {restored!r}")
    assert not faults


def read_texts(stream: str) -> list[str]:
    """Return the parts of text in a stream of any of the four formats."""
    texts: list[str] = []
    for line in stream.splitlines():
        if not line.startswith("data: {"):
            continue
        event = json.loads(line[6:])
        match event:
            case {
                "type": "response.output_text.delta" | "content_block_delta",
                "delta": str(text) | {"text": str(text)},
            }:
                texts.append(text)
            case {"choices": [{"delta": {"content": str(text)}}]}:
                texts.append(text)
            case {"candidates": [{"content": {"parts": [{"text": str(text)}]}}]}:
                texts.append(text)
    return texts


def test_fixed_marks_name_the_kind_in_both_directions(masking: Gateway, upstream: Upstream) -> None:
    upstream.script(answer(completion("Ask EMP-654321 at +49 30 1234567 for DE89 3704 0044 0532 0130 00.")))
    response = send(masking, "/v1/chat/completions", CHAT)
    (sent,) = upstream.requests
    assert sent.json["messages"][0]["content"] == "Write to <EMAIL> and <EMPLOYEE>."
    assert response.json()["choices"][0]["message"]["content"] == "Ask <EMPLOYEE> at <PHONE> for <IBAN>."


def test_fields_that_nobody_knows_and_arguments_of_tools_are_redacted_too(masking: Gateway, upstream: Upstream) -> None:
    upstream.script(answer(completion("Done.")))
    calls = [
        {"id": "call_1", "type": "function", "function": {"name": "look", "arguments": '{"who": "eve@example.com"}'}}
    ]
    messages = [
        *CHAT["messages"],
        {"role": "assistant", "content": None, "tool_calls": calls},
        {"role": "tool", "tool_call_id": "call_1", "content": "Eve, eve@example.com"},
    ]
    body = {
        **CHAT,
        "messages": messages,
        "metadata": {"owner": "dan@example.com"},
        "new_field": {"note": "ask finn@example.com"},
    }
    assert send(masking, "/v1/chat/completions", body).status_code == 200
    (sent,) = upstream.requests
    assert b"@example.com" not in sent.body
    assert json.loads(sent.json["messages"][1]["tool_calls"][0]["function"]["arguments"]) == {"who": "<EMAIL>"}


def test_requests_do_not_share_marks(restoring: Gateway, upstream: Upstream) -> None:
    upstream.script(answer(completion("[EMAIL_1] [EMAIL_2]"), repeat=True))
    for name in ("ann", "ben"):
        body = {**CHAT, "messages": [{"role": "user", "content": f"{name}@example.com"}]}
        text = send(restoring, "/v1/chat/completions", body).json()["choices"][0]["message"]["content"]
        assert text == f"{name}@example.com [EMAIL_2]"


def test_a_cached_answer_has_the_values_of_each_caller(upstream: Upstream, conf: str, tmp_path: Path) -> None:
    with_cache = conf.replace("  redact:", "  cache: {{caches: {{chat: all}}}}\n  redact:")
    gateway = Gateway.start(with_cache.format(url=upstream.url, settings="restore: true"), tmp_path)
    upstream.script(answer(completion("I wrote to [EMAIL_1].")))
    responses = []
    for name in ("ann", "ben"):
        body = {**CHAT, "messages": [{"role": "user", "content": f"Write to {name}@example.com"}]}
        response = send(gateway, "/v1/chat/completions", body)
        responses.append((response.headers["x-gate-cache"], response.json()["choices"][0]["message"]["content"]))
    assert responses == [("miss", "I wrote to ann@example.com."), ("hit", "I wrote to ben@example.com.")]
    gateway.stop()
