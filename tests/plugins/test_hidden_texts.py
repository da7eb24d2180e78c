"""What a required guard must see: a text in every encoding of a file and in every odd place, on both lanes, whole and streamed.

The upstream is another process, which keeps what arrives. Whatever arrives is decoded in all ways that a lenient reader may try.
"""

from __future__ import annotations

import asyncio
import dataclasses
import json
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import httpx
import pytest

from tests.plugins.hidden_texts import CANARY, ENCODINGS, NUMBER, PLACES, PLAIN, TEXT, find_canary, make_body, make_file
from tests.support.distributions import install_module
from tests.support.gateway import Gateway
from tests.support.upstream import Upstream
from tests.support.variants import vary
from tests.support.wire_answers import FORMATS, make_answer

KEY = "test-key-of-hidden-texts"
GUARD = f'''
import re
from tornado_gate import guard_impl, types

SECRET = re.compile("{CANARY}|{NUMBER}")

class Guard:
    """Replaces the secret in requests to models "mask-…", refuses others with it."""

    @guard_impl
    def review_request(self, call, texts):
        spans = types.find_spans(texts, SECRET, lambda found: "***")
        if not spans:
            return None
        return types.Replace(spans=tuple(spans)) if call.model.startswith("mask") else types.Block(message="No.", status=403)
'''
CONF = """
plugins: {{openai: true, anthropic: true, gemini: true, guard: {guard}}}
providers:
  o: {{plugin: openai, base_url: "{url}/v1", api_key: none, responses: true}}
  c: {{plugin: openai, base_url: "{url}/v1", api_key: none}}
  a: {{plugin: anthropic, base_url: "{url}", api_key: none}}
  g: {{plugin: gemini, base_url: "{url}", api_key: none}}
models:
  "mask-o": {{provider: o}}
  "mask-a": {{provider: a}}
  "mask-g": {{provider: g}}
  "block-o": {{provider: o}}
  "block-a": {{provider: a}}
  "block-g": {{provider: g}}
  "free-o": {{provider: o}}
  "free-a": {{provider: a}}
  "free-g": {{provider: g}}
keys: [{{name: test, key: {key}}}]
"""
LANES = {
    "chat": {"verbatim": "o", "to Claude": "a", "to Gemini": "g"},
    "responses": {"verbatim": "o", "to Claude": "a", "to Gemini": "g"},
    "messages": {"verbatim": "a", "to OpenAI": "o", "to Gemini": "g"},
    "generate": {"verbatim": "g", "to OpenAI": "o", "to Claude": "a"},
}
PATHS = {"chat": "/v1/chat/completions", "responses": "/v1/responses", "messages": "/v1/messages"}


class Case(NamedTuple):
    """A request of a format on a lane, with its name."""

    name: str
    wire_format: str
    lane: str
    body: dict[str, Any]


def list_cases() -> Iterator[Case]:
    for wire_format, lanes in LANES.items():
        bodies = [
            (f"{one.name} #{number}", make_body(wire_format, content))
            for one in ENCODINGS
            for number, content in enumerate(make_file(wire_format, one))
        ]
        bodies += [(f"place #{number}", body) for number, body in enumerate(PLACES[wire_format])]
        for name, body in bodies:
            for lane in lanes:
                yield Case(name, wire_format, lane, body)


CASES = tuple(list_cases())


class Site:
    """A gateway in front of an upstream that answers everything."""

    def __init__(self, gateway: Gateway, upstream: Upstream) -> None:
        self.gateway, self.upstream = gateway, upstream

    def script(self, *, stream: bool) -> None:
        self.upstream.reset()
        paths = {**PATHS, "generate": "/v1beta/"}
        self.upstream.script(
            *(
                dataclasses.replace(make_answer(one, ["Fine."], stream=stream), path=paths[one], repeat=True)
                for one in FORMATS
            )
        )

    def send(self, cases: list[Case], mode: str, *, stream: bool) -> list[tuple[int, str, str]]:
        """Send all cases, 8 at a time. Returns for each the status, the loss header and the body of the answer."""
        return asyncio.run(self._send(cases, mode, stream))

    async def _send(self, cases: list[Case], mode: str, stream: bool) -> list[tuple[int, str, str]]:
        headers = {"Authorization": f"Bearer {KEY}", "anthropic-version": "2023-06-01"}
        gate = asyncio.Semaphore(8)
        async with httpx.AsyncClient(base_url=self.gateway.url, headers=headers, trust_env=False, timeout=60) as client:

            async def send_one(case: Case) -> tuple[int, str, str]:
                model = f"{mode}-{LANES[case.wire_format][case.lane]}"
                path, body = PATHS.get(case.wire_format, ""), case.body
                if path:
                    body = {"model": model, "stream": stream, **body}
                else:
                    path = f"/v1beta/models/{model}:" + (
                        "streamGenerateContent?alt=sse" if stream else "generateContent"
                    )
                async with gate:
                    answered = await client.post(
                        path, content=json.dumps(body), headers={"content-type": "application/json"}
                    )
                return answered.status_code, answered.headers.get("x-gate-loss", ""), answered.text

            return await asyncio.gather(*map(send_one, cases))


FEW = 13
"""`make test` sends one case of so many. The number is odd, so that encodings and places take turns."""


@pytest.fixture(scope="module")
def serve(tmp_path_factory: pytest.TempPathFactory, upstream_process: Upstream) -> Iterator[Callable[[str], Site]]:
    started: list[Gateway] = []

    def start(guard: str) -> Site:
        folder = tmp_path_factory.mktemp("hidden")
        environment = install_module(folder, "guard", GUARD)
        conf = CONF.format(url=upstream_process.url, key=KEY, guard=guard)
        started.append(Gateway.start(conf, folder, environment=environment))
        return Site(started[-1], upstream_process)

    yield start
    for gateway in started:
        gateway.stop()


@pytest.fixture(scope="module")
def site(serve: Callable[[str], Site]) -> Site:
    return serve('{required: true, models: ["mask-*", "block-*"]}')


@pytest.mark.parametrize(("stream", "share"), vary((False, FEW), (False, 1), (True, 1)))
def test_no_encoding_and_no_place_hides_a_text_from_a_required_guard(site: Site, stream: bool, share: int) -> None:
    faults: list[str] = []
    outcomes: Counter[str] = Counter()
    cases = list(CASES)[::share]
    for mode in ("mask", "block"):
        site.script(stream=stream)
        answers = site.send(cases, mode, stream=stream)
        for case, (status, _, text) in zip(cases, answers, strict=True):
            outcomes[f"{mode} {status}"] += 1
            if status not in (200, 400, 403):
                faults.append(f"{mode} {case.name} {case.wire_format} {case.lane}: {status} {text[:200]}")
            if mode == "block" and status == 200:
                faults.append(f"passed: {case.name} {case.wire_format} {case.lane}")
        for request in site.upstream.requests:
            if (found := find_canary(request.body)) is not None:
                faults.append(f"{mode}: {request.path} received {found[:80]!r} in {request.body[:300]!r}")
    assert not faults, "\n".join(faults[:40])
    assert outcomes["mask 200"] > 100 // share, outcomes  # many files are masked and go on


def test_the_reader_of_the_test_finds_the_text_where_no_guard_covers_the_request(site: Site) -> None:
    """Without this, the test above could pass because nothing arrives, or because its reader is blind."""
    site.script(stream=False)
    cases = [case for case in CASES if case.lane == "verbatim"][::FEW]
    answers = site.send(cases, "free", stream=False)
    sent = [request.body for request in site.upstream.requests]
    assert sum(status == 200 for status, _, _ in answers) > len(cases) * 0.8
    assert sum(find_canary(body) is not None for body in sent) > len(sent) * 0.9


def test_a_translator_refuses_in_the_callers_path_what_it_cannot_read(site: Site) -> None:
    site.script(stream=False)
    odd = "data:text/plain;base64;x=1," + PLAIN
    for wire_format, lane, content, param in (
        ("chat", "to Claude", [{"type": "file", "file": {"file_data": odd}}], "messages.0.content.0.file.file_data"),
        ("responses", "to Claude", [{"type": "input_file", "file_data": odd}], "input.0.content.0.file_data"),
        ("messages", "to OpenAI", [
            {"type": "document", "source": {"type": "base64", "media_type": "text/plain", "data": "YQ=YQ="}},
        ], "messages.0.content.0.source.data"),
        ("generate", "to Claude", [
            {"inline_data": {"mime_type": "text/plain", "data": "YQ@="}},
        ], "contents.0.parts.1.inline_data.data"),
    ):  # fmt: skip
        case = Case("", wire_format, lane, make_body(wire_format, content))
        ((status, _, text),) = site.send([case], "free", stream=False)
        assert status == 400, (wire_format, text)
        error = json.loads(text)["error"]
        assert error["param"] == param, text
        assert error["code"] == "unreadable_file", text
    assert not site.upstream.requests


def test_a_guard_that_is_not_required_says_what_it_could_not_read(serve: Callable[[str], Site]) -> None:
    site = serve('{models: ["mask-*"]}')
    site.script(stream=False)
    part = {"type": "file", "file": {"file_data": "data:text/plain;base64," + "YQ@=", "filename": "a.txt"}}
    case = Case("", "chat", "verbatim", make_body("chat", [part]))
    ((status, loss, text),) = site.send([case], "mask", stream=False)
    assert (status, loss) == (200, "guard:guard"), text
    assert len(site.upstream.requests) == 1


def test_names_and_texts_of_a_forms_files_are_seen(site: Site) -> None:
    site.script(stream=False)
    wave = b"RIFF\x24\0\0\0WAVEfmt \x10\0\0\0"
    for name, data, media_type, wanted in (
        (f"{CANARY}.wav", wave, "audio/wav", (403, "blocked_by_guard")),
        ("a.wav", wave, f"audio/{CANARY}", (403, "blocked_by_guard")),
        ("a.wav", TEXT.encode(), "audio/wav", (403, "blocked_by_guard")),
        ("a.wav", TEXT.encode("utf-16"), "application/octet-stream", (403, "blocked_by_guard")),
        ("a.bin", b"\xff\xee" + TEXT.encode(), "application/octet-stream", (400, "blocked_by_guard")),
    ):
        answered = httpx.post(
            site.gateway.url + "/v1/audio/transcriptions",
            headers={"Authorization": f"Bearer {KEY}"},
            data={"model": "block-o"},
            files={"file": (name, data, media_type)},
            trust_env=False,
        )
        assert (answered.status_code, answered.json()["error"]["code"]) == wanted, (name, media_type, answered.text)
    assert not site.upstream.requests
