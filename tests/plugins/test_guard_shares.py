"""One account's slow text harms only its own requests, and a guard that is not required says when it did not look."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest
from tornado.httpclient import HTTPClientError, HTTPRequest
from tornado.websocket import websocket_connect

from tests.support.distributions import install_module
from tests.support.gateway import Gateway
from tests.support.upstream import Upstream
from tests.support.wire_answers import make_answer, make_request, read_events, read_text

KEY = "test-key-of-shares"
GUARD = '''
import asyncio, re, threading
from tornado_gate import guard_impl, types

SECRET = re.compile("secret")
HELD = threading.Event()

class Guard:
    """Replaces the word "secret"; other words make it fail, hang in a lock, or compute for ever."""

    @guard_impl
    def guard_options(self):
        return types.GuardOptions(lookahead=12)

    @guard_impl
    def review_request(self, call, texts):
        return self.review(texts, "asked-")

    @guard_impl
    def review_response(self, call, texts):
        return self.review(texts, "answered-")

    def review(self, texts, side):
        whole = " ".join(text.text for text in texts)
        if side + "boom" in whole:
            raise KeyError("boom")
        if side + "release" in whole:
            HELD.set()
        if side + "hang" in whole:
            print("a review hangs", flush=True)
            HELD.wait()
        while side + "spin" in whole:
            pass
        spans = types.find_spans(texts, SECRET, lambda found: "******")
        return types.Replace(spans=tuple(spans)) if spans else None
'''
CONF = """
server: {{hook_seconds: 1}}
plugins: {{openai: true, anthropic: true, local: true, guard: {guard}, redact: {redact}}}
providers:
  o: {{plugin: openai, base_url: "{url}/v1", api_key: none}}
  a: {{plugin: anthropic, base_url: "{url}", api_key: none}}
  local: {{plugin: local}}
models:
  to-o: {{provider: o}}
  to-a: {{provider: a}}
  local-realtime: {{provider: local}}
keys:
  - {{name: ann, key: {key}-ann}}
  - {{name: bob, key: {key}-bob}}
  - {{name: eve, key: {key}-eve}}
"""
LANES = [("chat", "to-o"), ("chat", "to-a"), ("messages", "to-a"), ("messages", "to-o")]
LIMITS = "review_timeout: 1.0, review_timeout_per_mb: 0.1"


def make_worst_text() -> str:
    """Ten megabytes that take `redact` the longest."""
    return "a@" * 5_000_000


class Site:
    """A gateway with two guards, in front of the scripted upstream."""

    def __init__(self, gateway: Gateway, upstream: Upstream) -> None:
        self.gateway = gateway
        self.upstream = upstream

    def send(
        self, name: str, prompt: str, *, case: tuple[str, str] = LANES[0], stream: bool = False, **headers: str
    ) -> httpx.Response:
        """The response to a prompt of the owner of a key."""
        path, body = make_request(*case, prompt, stream=stream)
        sent = {"Authorization": f"Bearer {KEY}-{name}", "anthropic-version": "2023-06-01"}
        sent |= {header.replace("_", "-"): value for header, value in headers.items()}
        return httpx.post(self.gateway.url + path, json=body, headers=sent, trust_env=False, timeout=60)

    def script(self, case: tuple[str, str], *pieces: str, stream: bool = False) -> None:
        self.upstream.reset()
        spoken = "messages" if case[1] == "to-a" else "chat"
        self.upstream.script(make_answer(spoken, pieces, stream=stream))

    def read_metric(self, name: str) -> float:
        text = httpx.get(self.gateway.url + "/metrics", trust_env=False).text
        return sum(float(value) for value in re.findall(rf"^{re.escape(name)} (\S+)$", text, re.MULTILINE))


@pytest.fixture
def serve(start_gateway: Callable[..., Gateway], tmp_path: Path, upstream: Upstream) -> Callable[..., Site]:
    def start(guard: str, redact: str = "false", module: str = GUARD) -> Site:
        environment = install_module(tmp_path / "site", "guard", module)
        conf = CONF.format(url=upstream.url, key=KEY, guard=guard, redact=redact)
        return Site(start_gateway(conf, environment=environment), upstream)

    return start


def find_unmasked(site: Site) -> list[str]:
    """What is wrong with large texts of another account, in both lanes, whole and streamed."""
    faults = []
    filler = "some words " * 10_000
    for case in LANES:
        for stream in (False, True):
            site.script(case, f"{filler} secret ", filler, "eve@example.com.", stream=stream)
            answered = site.send("bob", f"{filler} secret bob@example.com", case=case, stream=stream)
            said = read_text(case[0], answered.text) if answered.status_code == 200 else answered.text
            (request,) = site.upstream.requests or [None]
            if request is None or b"****** ***" not in request.body or b"bob@" in request.body:
                faults.append(f"{case} {stream}: the upstream got {request and request.body[-200:]!r}")
            if "******" not in said or not said.endswith("***.") or "secret" in answered.text:
                faults.append(f"{case} {stream}: the caller got {answered.status_code} {said[-200:]}")
    return faults


@pytest.mark.qa
def test_a_text_that_hangs_in_a_guard_harms_its_account_only(serve: Callable[..., Site]) -> None:
    site = serve(f"{{required: true, {LIMITS}}}", "{required: true}")
    worst = f"{make_worst_text()} asked-hang"  # redact reads ten megabytes of the worst text first
    with ThreadPoolExecutor(2) as pool:
        hanging = pool.submit(site.send, "ann", worst)
        spinning = pool.submit(site.send, "eve", "x" * 100_000 + " asked-spin")
        assert find_unmasked(site) == []
        site.gateway.child.wait_for_line("a review hangs")
        assert find_unmasked(site) == []
        refused, stopped = hanging.result(), spinning.result()
    assert (refused.status_code, stopped.status_code) == (503, 503)
    assert "'guard' is required for this request and has not reviewed its texts in time" in refused.text
    assert site.read_metric('tornado_gate_guard_threads{state="stuck"}') == 1
    assert site.read_metric("tornado_gate_guard_largest_share") == 1
    site.gateway.child.wait_for_line("a review of a large text of the account 'ann' cannot be stopped")
    again = site.send("ann", "x" * 100_000)
    assert (again.status_code, again.json()["error"]["code"]) == (503, "plugin_unavailable")
    assert "an earlier large text of this account" in again.text
    assert find_unmasked(site) == []
    for name, prompt in (("ann", "a secret"), ("eve", "x" * 100_000 + " secret"), ("ann", "asked-release")):
        site.script(LANES[0], "Hi")
        assert site.send(name, prompt).status_code == 200, name
    site.script(LANES[0], "Hi")
    while site.read_metric('tornado_gate_guard_threads{state="stuck"}'):
        pass
    assert site.send("ann", "x" * 100_000 + " secret").status_code == 200
    assert site.upstream.requests[0].body.count(b"******") == 1


@pytest.mark.qa
def test_the_worst_text_for_redact_is_reviewed_in_time(serve: Callable[..., Site]) -> None:
    site = serve("false", "{required: true}")
    site.script(LANES[0], "Hi")
    answered = site.send("ann", f"{make_worst_text()} ann@example.com")
    assert answered.status_code == 200, answered.text
    assert site.upstream.requests[0].body.count(b"***") == 1


@pytest.mark.qa
def test_a_guard_that_did_not_look_is_named_and_a_strict_request_is_refused(serve: Callable[..., Site]) -> None:
    site = serve(f"{{{LIMITS}}}")
    large = "x" * 100_000
    for prompt, said in (("asked-boom", "Hi"), ("Hi", "answered-boom"), (f"{large} asked-spin", "Hi")):
        for case in LANES:
            for stream in (False, True):
                if stream and "answered" in said:
                    continue  # it may fail when the head has been sent: the next test
                site.script(case, said, stream=stream)
                answered = site.send("ann", prompt, case=case, stream=stream)
                place = (prompt[-10:], said, case, stream)
                assert (answered.status_code, answered.headers.get("x-gate-loss")) == (200, "guard:guard"), place
                assert read_text(case[0], answered.text) == said, place
                site.script(case, said, stream=stream)
                refused = site.send("ann", prompt, case=case, stream=stream, x_gate_strict="1")
                assert refused.status_code == 400, place
                assert "'guard' did not review" in refused.json()["error"]["message"], place
                assert len(site.upstream.requests) == (1 if "answered" in said else 0), place
    for fault in ("review_request raised KeyError", "review_request took longer"):
        assert site.gateway.wait_for_log(fault).count(fault) == 1
    looked = site.send("ann", "Hi", x_gate_strict="1")
    assert (looked.status_code, looked.headers.get("x-gate-loss")) == (200, None)


def test_a_guard_that_fails_in_the_middle_of_a_stream_ends_it_for_a_strict_request(serve: Callable[..., Site]) -> None:
    site = serve("true")
    pieces = ("This was said before. " * 4, "Then: ", "answered-boom", " and more")
    for strict in ("0", "1"):
        site.upstream.reset()
        site.upstream.script(make_answer("chat", pieces, stream=True, wait_before="answered-boom"))
        path, body = make_request(*LANES[0], "Hi", stream=True)
        headers = {"Authorization": f"Bearer {KEY}-ann", "x-gate-strict": strict}
        text = ""
        with httpx.stream("POST", site.gateway.url + path, json=body, headers=headers, trust_env=False) as answered:
            assert "x-gate-loss" not in answered.headers  # it was sent before the failure
            for chunk in answered.iter_text():
                text += chunk
                if "This was" in text:
                    site.upstream.tell("go")
        if strict == "0":
            assert read_text("chat", text) == "".join(pieces)
        else:
            assert read_events(text)[-1]["error"]["code"] == "not_reviewed"
            assert "answered-boom" not in text


def test_a_guard_that_cannot_be_configured_is_named_in_every_answer(serve: Callable[..., Site]) -> None:
    broken = GUARD.replace("from tornado_gate import guard_impl", "from tornado_gate import plugin_impl, guard_impl")
    broken += "    @plugin_impl\n    def configure_plugin(self, entry):\n        raise KeyError('no')\n"
    site = serve("{keys: [ann]}", module=broken)
    site.script(LANES[0], "Hi")
    assert site.send("ann", "Hi").headers["x-gate-loss"] == "guard:guard"
    site.script(LANES[0], "Hi")
    assert "x-gate-loss" not in site.send("bob", "Hi").headers
    assert site.send("ann", "Hi", x_gate_strict="1").status_code == 400
    path, body = make_request(*LANES[0], "Hi", stream=False)
    headers = {"Authorization": f"Bearer {KEY}-ann"}
    explained = httpx.post(f"{site.gateway.url}/v1/_explain?route={path}", json=body, headers=headers, trust_env=False)
    assert explained.json()["losses"] == ["guard:guard"]

    async def open_session(**more: str) -> Any:
        url = site.gateway.url.replace("http", "ws", 1) + "/v1/realtime?model=local-realtime"
        socket = await websocket_connect(HTTPRequest(url, headers={**headers, **more}))
        try:
            return socket.headers.get("x-gate-loss")
        finally:
            socket.close()

    assert asyncio.run(open_session()) == "guard:guard"
    with pytest.raises(HTTPClientError) as refused:
        asyncio.run(open_session(**{"x-gate-strict": "1"}))
    assert refused.value.code == 400


@pytest.mark.qa
def test_a_coroutine_that_blocks_the_loop_in_a_pattern_harms_its_request_only(serve: Callable[..., Site]) -> None:
    quadratic = GUARD.replace(
        "    def review_request(self, call, texts):", "    async def review_request(self, call, texts):"
    )
    quadratic = quadratic.replace(
        "        whole = ", '        re.match(r"(a+)+b", max((text.text for text in texts), key=len))\n        whole = '
    )
    site = serve("{required: true}", module=quadratic)
    site.script(LANES[0], "Hi")
    with ThreadPoolExecutor(2) as pool:
        blocking = pool.submit(site.send, "ann", "a" * 60)
        other = pool.submit(site.send, "bob", "a secret")
        assert blocking.result().json()["error"]["code"] == "plugin_unavailable"
        assert other.result().status_code == 200
    assert json.loads(site.upstream.requests[0].body)["messages"][0]["content"] == "a ******"
