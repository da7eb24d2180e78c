"""Guards at a real gateway: in every wire format, on both lanes, in whole answers and streams, whatever is wrong with them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import httpx
import pytest

from tests.support.distributions import install_module
from tests.support.gateway import Gateway
from tests.support.upstream import Upstream
from tests.support.wire_answers import FORMATS, find_error_code, make_answer, make_request, read_events, read_text
from tornado_gate.database.opening import open_database
from tornado_gate.ledger.reports import Reports
from tornado_gate.ledger.rows import RequestRow

KEY = "test-key-of-guards"
GUIDE = Path(__file__).parents[2] / "docs" / "how-to" / "guards.md"
GUARD = '''
import asyncio, re
from tornado_gate import guard_impl, types

SECRET = re.compile("secret")

class Guard:
    """Replaces the word "secret"; other words make it refuse, fail or hang."""

    @guard_impl
    def guard_options(self):
        return types.GuardOptions(lookahead=12)

    @guard_impl
    def review_request(self, call, texts):
        return self.review(texts, "asked-")

    @guard_impl
    async def review_response(self, call, texts):
        assert call.target.provider
        if any("answered-hang" in text.text for text in texts):
            await asyncio.Event().wait()
        return self.review(texts, "answered-")

    def review(self, texts, side):
        whole = " ".join(text.text for text in texts)
        if side + "boom" in whole:
            raise KeyError("boom")
        if side + "never" in whole:
            return types.Block(message="Not here.", status=403, code="house_rule")
        spans = types.find_spans(texts, SECRET, lambda found: "******")
        return types.Replace(spans=tuple(spans)) if spans else None
'''
CONF = """
server: {{access_log: true, log_format: json, hook_seconds: {hook_seconds}}}
plugins: {{openai: true, anthropic: true, gemini: true, guard: {guard}}}
providers:
  o: {{plugin: openai, base_url: "{url}/v1", api_key: none, responses: true}}
  a: {{plugin: anthropic, base_url: "{url}", api_key: none}}
  g: {{plugin: gemini, base_url: "{url}", api_key: none}}
models:
  to-o: {{provider: o}}
  to-a: {{provider: a}}
  to-g: {{provider: g}}
keys:
  - {{name: test, key: {key}}}
  - {{name: other, key: {key}-2}}
circuits: {{failures: 2}}
prices: {{"to-*": {{input: 1, output: 1}}}}
"""
VERBATIM = {"chat": "to-o", "responses": "to-o", "messages": "to-a", "generate": "to-g"}
COMMON = {"chat": "to-a", "responses": "to-a", "messages": "to-o", "generate": "to-o"}
SPOKEN = {"to-a": "messages", "to-g": "generate"}
"""The wire format of the upstream of a model, unless it is that of the caller or chat."""
CASES = [
    (wire_format, model, stream)
    for wire_format in FORMATS
    for model in (VERBATIM[wire_format], COMMON[wire_format])
    for stream in (False, True)
]

StartGateway = Callable[..., Gateway]


class Answered(NamedTuple):
    status_code: int
    text: str


class Site:
    """A gateway with the guard, in front of the scripted upstream."""

    def __init__(self, gateway: Gateway, upstream: Upstream) -> None:
        self.gateway = gateway
        self.upstream = upstream
        headers = {"Authorization": f"Bearer {KEY}", "anthropic-version": "2023-06-01"}
        self.client = httpx.Client(base_url=gateway.url, headers=headers, trust_env=False, timeout=20)

    def ask(
        self, wire_format: str, model: str, prompt: str, *pieces: str, stream: bool = False, wait_before: str = ""
    ) -> Answered:
        """Send a prompt; the upstream answers with the pieces.

        A stream waits before the piece `wait_before` until the caller has received the beginning of the first piece.
        """
        self.upstream.reset()
        spoken = wire_format if model == VERBATIM[wire_format] else SPOKEN.get(model, "chat")
        self.upstream.script(make_answer(spoken, pieces, stream=stream, wait_before=wait_before if stream else ""))
        path, body = make_request(wire_format, model, prompt, stream=stream)
        text = ""
        with self.client.stream("POST", path, json=body) as answered:
            for chunk in answered.iter_text():
                text += chunk
                if wait_before and pieces[0][:10] in text:
                    self.upstream.tell("go")
                    wait_before = ""
        return Answered(answered.status_code, text)

    def read_ledger(self) -> list[RequestRow]:
        """Stop the gateway; the rows of its requests, oldest first."""
        self.gateway.stop()
        database = open_database(self.gateway.folder / "var", "")
        try:
            return sorted(Reports(database).requests(limit=1000), key=lambda row: row.moment)
        finally:
            database.close()

    def count(self, metric: str) -> float:
        text = httpx.get(self.gateway.url + "/metrics", trust_env=False).text
        return sum(float(line.rsplit(" ", 1)[1]) for line in text.splitlines() if line.startswith(metric))


@pytest.fixture
def serve(start_gateway: StartGateway, tmp_path: Path, upstream: Upstream) -> Iterator[Callable[..., Site]]:
    sites: list[Site] = []

    def start(guard: str, module: str | None = GUARD, hook_seconds: float = 30) -> Site:
        environment = install_module(tmp_path / f"site{len(sites)}", "guard", module)
        conf = CONF.format(url=upstream.url, key=KEY, guard=guard, hook_seconds=hook_seconds)
        gateway = start_gateway(conf, environment=environment)
        sites.append(Site(gateway, upstream))
        return sites[-1]

    yield start
    for site in sites:
        site.client.close()


def test_texts_are_replaced_in_every_format_on_both_lanes(serve: Callable[..., Site]) -> None:
    site = serve("{required: true}")
    for case in CASES:
        wire_format, model, stream = case
        pieces = ("A sec", "ret, and two sec", "rets here", ".")
        answered = site.ask(wire_format, model, "my secret", *pieces, stream=stream)
        assert answered.status_code == 200, (case, answered.text)
        assert read_text(wire_format, answered.text) == "A ******, and two ******s here.", (case, answered.text)
        assert "secret" not in answered.text, case
        (sent,) = site.upstream.requests
        assert b"my ******" in sent.body, case
        assert b"secret" not in sent.body, case
    assert site.count('tornado_gate_guard_reviews_total{decision="replace",guard="guard",side="request"}') == len(CASES)


def test_a_blocked_request_reaches_no_upstream_and_is_logged_with_its_code(serve: Callable[..., Site]) -> None:
    site = serve("true")
    for case in CASES:
        wire_format, model, stream = case
        refused = site.ask(wire_format, model, "asked-never", "Hi", stream=stream)
        assert refused.status_code == 403, case
        assert "Not here." in refused.text, case
        assert not site.upstream.requests, case
    lines = [json.loads(line) for line in site.gateway.stop().splitlines() if line.startswith("{")]
    refusals = [(line["model"], line["status"]) for line in lines if line.get("error") == "house_rule"]
    assert sorted(refusals) == sorted((model, 403) for _, model, _ in CASES)


def test_a_blocked_answer_is_an_error_of_the_format_and_no_failure_of_the_target(serve: Callable[..., Site]) -> None:
    site = serve("true")
    for case in CASES * 2:  # often enough to open the circuits of the targets
        wire_format, model, stream = case
        pieces = ("This was said before. " * 4, "Then: ", "answered-", "never", " and more")
        refused = site.ask(wire_format, model, "Hi", *pieces, stream=stream, wait_before="answered-")
        assert len(site.upstream.requests) == 1, case
        if not stream:
            assert (refused.status_code, "Not here." in refused.text) == (403, True), case
            continue
        assert refused.status_code == 200, case
        error = read_events(refused.text)[-1]
        assert "Not here." in json.dumps(error), (case, error)
        assert "never" not in refused.text, case
        assert "This was said before." in read_text(wire_format, refused.text), case
    assert site.count("tornado_gate_upstream_errors_total") == 0
    rows = site.read_ledger()
    assert [(row.outcome, row.error_code, row.upstream_model) for row in rows] == [
        ("broken" if stream else "refused", "house_rule", model) for _, model, stream in CASES * 2
    ]
    assert all(row.cost for row in rows), "the upstream is paid although its answer was withheld"


@pytest.mark.qa
def test_a_required_guard_that_fails_lets_nothing_pass(serve: Callable[..., Site]) -> None:
    site = serve("{required: true, review_timeout: 1.0}")
    for case in CASES:
        wire_format, model, stream = case
        refused = site.ask(wire_format, model, "asked-boom", "Hi", stream=stream)
        assert (refused.status_code, len(site.upstream.requests)) == (503, 0), case
    for wire_format, model, stream in CASES:
        for fault in ("answered-boom", "answered-hang"):
            if fault == "answered-hang" and model != VERBATIM[wire_format]:
                continue  # each takes the time limit
            failing = (wire_format, model, stream, fault)
            pieces = ("This was said before. " * 4, "Then: ", fault)
            answered = site.ask(wire_format, model, "Hi", *pieces, stream=stream, wait_before=fault)
            assert answered.status_code == (200 if stream else 503), failing
            assert fault not in answered.text, failing
            error = read_events(answered.text)[-1] if stream else json.loads(answered.text)
            assert "'guard' is required" in json.dumps(error), (failing, error)
            if wire_format in ("chat", "generate"):
                assert find_error_code(wire_format, error) == "plugin_unavailable", (failing, error)


def test_a_guard_that_is_not_required_is_passed_over_when_it_fails(serve: Callable[..., Site]) -> None:
    site = serve("{review_timeout: 1.5}")
    for case in CASES:
        wire_format, model, stream = case
        answered = site.ask(wire_format, model, "asked-boom", "It is ", "answered-boom", stream=stream)
        assert answered.status_code == 200, case
        assert read_text(wire_format, answered.text) == "It is answered-boom", case
    fault = "plugin 'guard' failed: review_request raised KeyError"
    assert site.gateway.wait_for_log(fault).count(fault) == 1
    failed = site.count('tornado_gate_guard_reviews_total{decision="failed",guard="guard",side="request"}')
    assert failed == len(CASES)
    answered = site.ask("chat", "to-o", "Hi", "It is ", "answered-hang", stream=True)
    assert read_text("chat", answered.text) == "It is answered-hang"


def test_a_guard_that_cannot_be_imported_closes_its_scope_only_if_it_is_required(serve: Callable[..., Site]) -> None:
    for guard, status in (("{required: true, keys: [test]}", 503), ("{keys: [test]}", 200)):
        site = serve(guard, "import a_module_that_is_not_there")
        for case in CASES:
            wire_format, model, stream = case
            answered = site.ask(wire_format, model, "Hi", "Hello", stream=stream)
            assert answered.status_code == status, (guard, case, answered.text)
        site.client.headers["Authorization"] = f"Bearer {KEY}-2"
        assert site.ask("chat", "to-o", "Hi", "Hello").status_code == 200


def test_a_guard_reviews_the_requests_in_its_scope_only(serve: Callable[..., Site]) -> None:
    site = serve('{required: true, operations: [chat], models: ["to-a"], keys: [test]}')
    for model, key, text in (
        ("to-a", KEY, "a ******"), ("to-o", KEY, "a secret"), ("to-a", f"{KEY}-2", "a secret"),
    ):  # fmt: skip
        site.client.headers["Authorization"] = f"Bearer {key}"
        answered = site.ask("chat", model, "a secret", "a sec", "ret", stream=True)
        assert read_text("chat", answered.text) == text, (model, key)
        assert text.encode() in site.upstream.requests[0].body, (model, key)


def test_a_guard_that_blocks_the_event_loop_is_interrupted(serve: Callable[..., Site]) -> None:
    loop = 'while any("asked-busy" in text.text for text in texts): pass'
    busy = GUARD.replace("        whole = ", f"        {loop}\n        whole = ")
    site = serve("{required: true}", busy, hook_seconds=1.5)
    assert site.ask("chat", "to-o", "asked-busy", "Hi").status_code == 503
    assert site.ask("chat", "to-o", "a secret", "Hi").status_code == 200


@pytest.mark.qa
def test_large_bodies_are_reviewed_beside_the_event_loop(serve: Callable[..., Site]) -> None:
    site = serve("{required: true, review_timeout: 2.0}", GUARD + LARGE)
    filler = "x" * 100_000
    answered = site.ask("chat", "to-o", f"{filler} secret", f"{filler} secret")
    assert read_text("chat", answered.text) == f"{filler} ******"
    assert site.upstream.requests[0].json["messages"][0]["content"] == f"{filler} ******"
    for _ in range(2):  # the thread that hangs does not hold up the next one
        assert site.ask("chat", "to-o", f"{filler} asked-stuck", "Hi").status_code == 503
    assert site.ask("chat", "to-o", "a secret", "Hi").status_code == 200


LARGE = """
import threading

class Careful(Guard):
    @guard_impl
    def review_request(self, texts):
        if any(len(text.text) > 65536 for text in texts):
            assert threading.current_thread() is not threading.main_thread()
        if any("asked-stuck" in text.text for text in texts):
            threading.Event().wait()
        return self.review(texts, "asked-")

Guard = Careful
"""


def test_the_guard_of_the_docs_works(serve: Callable[..., Site]) -> None:
    (source,) = re.findall(r"```python\n(# tornado_gate_discreet.*?)```", GUIDE.read_text(encoding="utf-8"), re.DOTALL)
    assert len(source.splitlines()) <= 30
    site = serve("{required: true}", source)
    refused = site.ask("messages", "to-a", "What is Project X?", "Hi")
    assert (refused.status_code, json.loads(refused.text)["error"]["message"]) == (
        403,
        "Do not ask models about this project.",
    )
    for case in CASES:
        wire_format, model, stream = case
        pieces = ("Write to jo", "hn.doe@exa", "mple.com or", " to nobody. ", "x" * 300)
        answered = site.ask(wire_format, model, "I am ann@example.org.", *pieces, stream=stream)
        assert read_text(wire_format, answered.text).startswith("Write to [e-mail] or to nobody. xxx"), case
        assert b"I am [e-mail]." in site.upstream.requests[0].body, case
