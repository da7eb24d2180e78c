"""One policy for every operation and both lanes: each failure is logged, counted and counts for the circuit; tokens are charged.

Real gateway, scripted upstreams. Each case uses a model of its own behind a wildcard, so each has its own circuit; one failure
opens it. A gateway in which all time limits are short makes the upstream's silence a failure.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import httpx
import pytest

from tests.support.gateway import Gateway
from tests.support.lanes import generated, message_start
from tests.support.scripts import chunk
from tests.support.upstream import Answer, Close, Hang, Reset, Step, Upstream, answer, sse

KEY = "test-key-of-policies"
CONF = """
plugins: {{local: true, openai: true, anthropic: true, gemini: true}}
server: {{access_log: true, log_level: info, log_format: json}}
providers:
  o: {{plugin: openai, base_url: "{url}/o/v1", api_key: key-of-the-upstream, timeouts: {timeouts}}}
  own:
    {{plugin: openai, base_url: "{url}/o/v1", api_key: key, responses: true, completions: true, timeouts: {timeouts}}}
  a: {{plugin: anthropic, base_url: "{url}/a", api_key: key-of-the-upstream, timeouts: {timeouts}}}
  g: {{plugin: gemini, base_url: "{url}/g", api_key: key-of-the-upstream, timeouts: {timeouts}}}
models:
  "o/*": {{provider: o}}
  "own/*": {{provider: own}}
  "a/*": {{provider: a}}
  "g/*": {{provider: g}}
circuits: {{failures: 1, open_seconds: 1000}}
keys:
  - {{name: test, key: {key}}}
{limited}
"""
LIMIT = 1_000_000
PATIENT, HURRIED, GAPLESS = "{first_event: 60, gap: 60}", "{first_event: 0.2, gap: 60}", "{first_event: 60, gap: 0.2}"
_numbers = count()


def _start(upstream: Upstream, tmp_path_factory: pytest.TempPathFactory, timeouts: str) -> Gateway:
    limited = "\n".join(
        f"  - {{name: limited-{number}, key: limited-{KEY}-{number}, tokens_per_minute: {LIMIT}}}"
        for number in range(4 * len(STREAMS))
    )
    conf = CONF.format(url=upstream.url, key=KEY, timeouts=timeouts, limited=limited)
    return Gateway.start(conf, tmp_path_factory.mktemp("policies"))


@pytest.fixture(scope="module")
def patient(upstream_process: Upstream, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    gateway = _start(upstream_process, tmp_path_factory, PATIENT)
    yield gateway
    gateway.stop()


@pytest.fixture(scope="module")
def hurried(upstream_process: Upstream, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    gateway = _start(upstream_process, tmp_path_factory, HURRIED)
    yield gateway
    gateway.stop()


@pytest.fixture(scope="module")
def gapless(upstream_process: Upstream, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """Waits long for the first event, and briefly for each one after it."""
    gateway = _start(upstream_process, tmp_path_factory, GAPLESS)
    yield gateway
    gateway.stop()


MESSAGES = [{"role": "user", "content": "Tell me a story."}]
CONTENTS = {"contents": [{"role": "user", "parts": [{"text": "Tell me a story."}]}]}
RESPONSE = {
    "id": "resp_1", "object": "response", "created_at": 1, "status": "in_progress", "model": "m", "output": [],
}  # fmt: skip
RESPONSE_EVENTS = (
    {"type": "response.created", "sequence_number": 0, "response": RESPONSE},
    {
        "type": "response.output_item.added", "sequence_number": 1, "output_index": 0,
        "item": {"id": "msg_1", "type": "message", "role": "assistant", "status": "in_progress", "content": []},
    },
    {
        "type": "response.content_part.added", "sequence_number": 2, "item_id": "msg_1", "output_index": 0,
        "content_index": 0, "part": {"type": "output_text", "text": "", "annotations": []},
    },
)  # fmt: skip


def _o_chat(text: str) -> str:
    return sse(chunk(role="assistant", content=""), chunk(content=text))


def _o_completion(text: str) -> str:
    choice = {"index": 0, "text": text, "finish_reason": None, "logprobs": None}
    return sse({"id": "c", "object": "text_completion", "created": 1, "model": "m", "choices": [choice]})


def _o_response(text: str) -> str:
    delta = {
        "type": "response.output_text.delta", "sequence_number": 3, "item_id": "msg_1", "output_index": 0,
        "content_index": 0, "delta": text,
    }  # fmt: skip
    return "".join(f"event: {one['type']}\n{sse(one)}" for one in (*RESPONSE_EVENTS, delta))


def _g_chat(text: str) -> str:
    return sse({name: value for name, value in generated(text, None).items() if name != "usageMetadata"})


O_ERROR = sse({"error": {"message": "boom", "type": "server_error", "param": None, "code": "server_error"}})
A_ERROR = 'event: error\ndata: {"type": "error", "error": {"type": "api_error", "message": "boom"}}\n\n'
G_ERROR = sse({"error": {"code": 500, "message": "boom", "status": "INTERNAL"}})
_FAILED = {**RESPONSE, "status": "failed", "error": {"code": "server_error", "message": "boom"}}
RESPONSE_ERROR = "event: response.failed\n" + sse(
    {"type": "response.failed", "sequence_number": 4, "response": _FAILED}
)


@dataclass(frozen=True)
class Route:
    """A route that streams: `path` may contain the model."""

    path: str
    body: dict[str, Any]
    headers: dict[str, str] = field(default_factory=dict)
    lane: str = "translated"
    provider: str = "o"
    first: Any = _o_chat
    error: str = O_ERROR


CHAT = Route("/v1/chat/completions", {"messages": MESSAGES, "stream": True})
COMPLETION = Route("/v1/completions", {"prompt": "Tell me a story.", "stream": True})
ANSWER = Route("/v1/responses", {"input": "Tell me a story.", "stream": True})
MESSAGE = Route(
    "/v1/messages", {"messages": MESSAGES, "max_tokens": 99, "stream": True}, {"anthropic-version": "2023-06-01"}
)
GENERATE = Route("/v1beta/models/{model}:streamGenerateContent?alt=sse", CONTENTS)


def _at(route: Route, provider: str, lane: str = "translated", first: Any = None, error: str = "") -> Route:
    firsts = {
        "o": (_o_chat, O_ERROR),
        "own": (_o_chat, O_ERROR),
        "a": (message_start, A_ERROR),
        "g": (_g_chat, G_ERROR),
    }
    usual = firsts[provider]
    return Route(route.path, route.body, route.headers, lane, provider, first or usual[0], error or usual[1])


STREAMS: dict[str, Route] = {
    "chat verbatim": _at(CHAT, "o", "verbatim"),
    "chat translated": _at(CHAT, "a"),
    "chat to gemini": _at(CHAT, "g"),
    "completions verbatim": _at(COMPLETION, "own", "verbatim", _o_completion),
    "completions translated": _at(COMPLETION, "g"),
    "responses verbatim": _at(ANSWER, "own", "verbatim", _o_response, RESPONSE_ERROR),
    "responses translated": _at(ANSWER, "a"),
    "messages verbatim": _at(MESSAGE, "a", "verbatim"),
    "messages translated": _at(MESSAGE, "o"),
    "generate verbatim": _at(GENERATE, "g", "verbatim"),
    "generate translated": _at(GENERATE, "o"),
}
QUICK = (
    "chat verbatim",
    "chat translated",
    "responses verbatim",
    "messages translated",
    "generate verbatim",
    "messages translated (whole)",
    "embeddings",
    "images",
)
"""The operations that `make test` proves; `make qa` has all."""


def _mark_routes(routes: dict[str, Route]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize(
        "route",
        [pytest.param(route, id=name, marks=[] if name in QUICK else pytest.mark.qa) for name, route in routes.items()],
    )


every_stream = _mark_routes(STREAMS)


@dataclass
class Case:
    """One request for a model of its own, and what the gateway's operator sees of it."""

    gateway: Gateway
    route: Route
    key: str = KEY

    def __post_init__(self) -> None:
        number = next(_numbers)
        self.upstream_model = f"{'gemini-embedding' if 'embeddings' in self.route.path else 'model'}-{number}"
        self.model = f"{self.route.provider}/{self.upstream_model}"
        self.id = f"case-{number}"
        self.errors_before = self.read_errors()

    @property
    def headers(self) -> dict[str, str]:
        return {"authorization": f"Bearer {self.key}", "x-request-id": self.id, **self.route.headers}

    @property
    def path(self) -> str:
        return self.route.path.replace("{model}", self.model)

    @property
    def body(self) -> dict[str, Any]:
        return self.route.body if "{model}" in self.route.path else {"model": self.model, **self.route.body}

    def send(self) -> httpx.Response:
        return httpx.post(
            self.gateway.url + self.path, json=self.body, headers=self.headers, trust_env=False, timeout=60
        )

    def explain(self) -> dict[str, Any]:
        path, _, query = self.path.partition("?")
        url = f"{self.gateway.url}/v1/_explain"
        headers = {**self.headers, "x-request-id": "explain"}
        explained = httpx.post(
            f"{url}?route={path}&{query}", json=self.body, headers=headers, trust_env=False, timeout=60
        )
        result: dict[str, Any] = explained.json()
        return result

    def read_errors(self) -> float:
        """The number of upstream errors of the provider, of all kinds."""
        text = httpx.get(f"{self.gateway.url}/metrics", trust_env=False, timeout=60).text
        name = rf'^tornado_gate_upstream_errors_total\{{kind="[^"]*",provider="{self.route.provider}"\}} (\S+)$'
        return sum(map(float, re.findall(name, text, re.MULTILINE)))

    def access_line(self) -> dict[str, Any]:
        line = self.gateway.child.wait_for_line(rf'^(\{{.*"logger":"tornado_gate.access".*"request_id":"{self.id}".*)$')
        found: dict[str, Any] = json.loads(line[1])
        return found

    def failure_lines(self) -> list[dict[str, Any]]:
        """The lines about failed attempts. They are written before the access line."""
        lines = [json.loads(line) for line in self.gateway.logs.splitlines() if f'"{self.id}"' in line]
        return [line for line in lines if line["message"].startswith("target failed")]

    def check_noted(self, status: int) -> None:
        """The failure is in the access log, the log and the metrics, and has opened the circuit."""
        line = self.access_line()
        assert line["status"] == status
        assert line["error"]
        assert (line["provider"], line["model"]) == (self.route.provider, self.model)
        assert line["upstream_model"] == self.upstream_model
        (failure,) = self.failure_lines()
        assert failure["message"] == f"target failed: {line['error']}"
        assert failure["status"] >= 500
        assert self.read_errors() == self.errors_before + 1
        assert self.circuit() == "open"

    def circuit(self) -> str:
        """The state of the circuit for the caller."""
        (target,) = self.explain()["targets"]
        state: str = target["circuit"]
        return state


def test_the_cases_take_the_lanes_that_they_name(patient: Gateway) -> None:
    assert {name: Case(patient, route).explain().get("lane") for name, route in STREAMS.items()} == {
        name: route.lane for name, route in STREAMS.items()
    }


# Streams that fail after their first event


@every_stream
@pytest.mark.parametrize("end", ["error frame", "close", "reset", "end"])
def test_a_failure_after_the_first_event_is_noted(patient: Gateway, upstream: Upstream, route: Route, end: str) -> None:
    steps: dict[str, tuple[Step, ...]] = {"error frame": (route.error,), "close": (Close(),), "reset": (Reset(),)}
    upstream.script(_stream(route.first("Once upon a time"), *steps.get(end, ())))
    case = Case(patient, route)
    assert "Once upon" in case.send().text
    case.check_noted(200)


@every_stream
def test_silence_after_the_first_event_is_noted(gapless: Gateway, upstream: Upstream, route: Route) -> None:
    upstream.script(_stream(route.first("Once upon a time"), Hang()))
    case = Case(gapless, route)
    assert "Once upon" in case.send().text
    case.check_noted(200)


def _stream(*steps: Step, **rest: Any) -> Answer:
    return answer(*steps, headers={"content-type": "text/event-stream"}, **rest)


# Failures before the first event, of every operation

WHOLE: dict[str, Route] = {
    **{f"{name} (whole)": route for name, route in STREAMS.items()},
    "embeddings": Route("/v1/embeddings", {"input": "a"}),
    "embeddings to gemini": Route("/v1/embeddings", {"input": "a"}, provider="g"),
    "images": Route("/v1/images/generations", {"prompt": "a cat"}),
    "speech": Route("/v1/audio/speech", {"input": "a", "voice": "alloy"}),
    "moderation": Route("/v1/moderations", {"input": "a"}),
}
for _name, _route in STREAMS.items():
    _body = {name: value for name, value in _route.body.items() if name != "stream"}
    WHOLE[f"{_name} (whole)"] = Route(
        _route.path.replace(":streamGenerateContent?alt=sse", ":generateContent"),
        _body,
        _route.headers,
        _route.lane,
        _route.provider,
    )
every_operation = _mark_routes({**STREAMS, **WHOLE})


@every_operation
def test_a_failure_before_the_first_event_is_noted(patient: Gateway, upstream: Upstream, route: Route) -> None:
    upstream.script(answer('{"error": {"message": "boom"}}', status=500))
    case = Case(patient, route)
    assert case.send().status_code == 502
    case.check_noted(502)


@every_operation
def test_a_reset_before_the_first_event_is_noted(patient: Gateway, upstream: Upstream, route: Route) -> None:
    upstream.script(answer(Reset(), repeat=True))
    case = Case(patient, route)
    assert case.send().status_code == 502
    case.check_noted(502)


SLOW_START = ("images",)
"""Operations to which `first_event` does not apply."""


@_mark_routes({name: route for name, route in {**STREAMS, **WHOLE}.items() if name not in SLOW_START})
def test_an_upstream_that_does_not_begin_is_504(hurried: Gateway, upstream: Upstream, route: Route) -> None:
    upstream.script(answer(Hang()))
    case = Case(hurried, route)
    assert case.send().status_code == 504
    case.check_noted(504)


@every_operation
def test_a_request_that_the_upstream_refuses_is_no_failure_of_the_target(
    patient: Gateway, upstream: Upstream, route: Route
) -> None:
    upstream.script(answer('{"error": {"message": "too long", "code": "too_long"}}', status=400))
    case = Case(patient, route)
    assert case.send().status_code == 400
    line = case.access_line()
    assert line["error"]
    assert (line["provider"], line["upstream_model"]) == (route.provider, case.upstream_model)
    assert case.failure_lines() == []
    assert case.circuit() == "closed"


@every_operation
@pytest.mark.parametrize("status", [404, 429])
def test_an_unknown_model_and_a_rate_limit_open_no_circuit(
    patient: Gateway, upstream: Upstream, route: Route, status: int
) -> None:
    upstream.script(answer('{"error": {"message": "no", "code": "model_not_found"}}', status=status))
    case = Case(patient, route)
    assert case.send().status_code == status
    assert case.access_line()["error"]
    assert case.circuit() == "closed"


# Tokens of streams that end without their usage

WORDS = "Once upon a time there was a cat. " * 120
PRODUCED = len(WORDS) / 4
_keys = count()


def _used(case: Case) -> int:
    """The tokens that the case's key has used, of its limit. Asked at another target, whose circuit is closed."""
    case.route, case.model = Route("/v1/chat/completions", {"messages": MESSAGES}), "a/another"
    remaining: int = case.explain()["limits"]["tokens"]["remaining"]
    return LIMIT - remaining


def _limited(gateway: Gateway, route: Route) -> Case:
    return Case(gateway, route, key=f"limited-{KEY}-{next(_keys)}")


@every_stream
def test_a_caller_who_leaves_pays_for_what_was_produced(patient: Gateway, upstream: Upstream, route: Route) -> None:
    upstream.script(_stream(route.first(WORDS), Hang()))
    case = _limited(patient, route)
    with httpx.stream(
        "POST", case.gateway.url + case.path, json=case.body, headers=case.headers, trust_env=False, timeout=60
    ) as response:
        text = ""
        for piece in response.iter_text():
            text += piece
            if text.count("Once upon") == 120:
                break
    case.access_line()
    assert 0.8 * PRODUCED < _used(case) < 1.5 * PRODUCED


@every_stream
def test_a_stream_that_breaks_off_costs_what_was_produced(patient: Gateway, upstream: Upstream, route: Route) -> None:
    upstream.script(_stream(route.first(WORDS), Reset()))
    case = _limited(patient, route)
    assert "Once upon" in case.send().text
    case.access_line()
    assert 0.8 * PRODUCED < _used(case) < 1.5 * PRODUCED


@every_stream
def test_a_failed_request_costs_nothing(patient: Gateway, upstream: Upstream, route: Route) -> None:
    upstream.script(answer('{"error": {"message": "boom"}}', status=500))
    case = _limited(patient, route)
    assert case.send().status_code == 502
    case.access_line()
    assert _used(case) <= 1
