"""SIGTERM: probes learn it first, the port stays open for a while, and what is open ends in order. The installed command."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import httpx
import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect

from tests.support.gateway import Gateway, run_command
from tests.support.upstream import Hang, Upstream, answer, sse

KEY = "test-key-of-drains"
CONF = """
server: {{http: {http}, drain_delay: {delay}, drain_seconds: {seconds}}}
plugins: {{local: true, openai: true}}
providers:
  local: {{plugin: local}}
  up: {{plugin: openai, base_url: "{url}", api_key: "scripted-key-0123456789"}}
models:
  local-chat: {{provider: local}}
  local-realtime: {{provider: local}}
  up: {{provider: up}}
keys: [{{name: test, key: {key}}}]
"""
HEADERS = {"Authorization": f"Bearer {KEY}"}
HELLO = [{"role": "user", "content": "Say hello"}]
CONTENTS = [{"role": "user", "parts": [{"text": "hi"}]}]
ARRAY = "/v1beta/models/up:streamGenerateContent"
PATIENCE_SECONDS = 60.0

StartGateway = Callable[..., Gateway]


@pytest.fixture
def start(start_gateway: StartGateway, upstream: Upstream) -> StartGateway:
    def start(processes: int = 1, http: str = "httptools", delay: str = "0", seconds: str = "60") -> Gateway:
        conf = CONF.format(http=http, delay=delay, seconds=seconds, url=upstream.url, key=KEY)
        return start_gateway(conf, "--processes", str(processes))

    return start


@pytest.fixture
def client() -> Iterator[httpx.Client]:
    with httpx.Client(trust_env=False, timeout=PATIENCE_SECONDS, headers=HEADERS) as client:
        yield client


def hanging_stream(text: str = "so far") -> Any:
    choice = {"index": 0, "delta": {"role": "assistant", "content": text}, "finish_reason": None}
    chunk = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]}
    return answer(sse(chunk), Hang())


def open_session(gateway: Gateway, path: str) -> ClientConnection:
    return connect(gateway.url.replace("http", "ws", 1) + path, additional_headers=HEADERS, proxy=None)


def read_end(session: ClientConnection) -> tuple[list[Any], int, str]:
    """The messages that are left, the close code and the reason."""
    messages = []
    try:
        while True:
            messages.append(json.loads(session.recv(PATIENCE_SECONDS)))
    except ConnectionClosed as closed:
        assert closed.rcvd is not None
        return messages, closed.rcvd.code, closed.rcvd.reason


def list_usage(gateway: Gateway) -> str:
    arguments = ("usage", "--conf", "gate.yaml", "--data-dir", "var", "--group-by", "model", "--json")
    return run_command(*arguments, folder=gateway.folder).stdout


@pytest.mark.parametrize(("processes", "http"), [(2, "httptools"), (1, "tornado")])
def test_the_port_stays_open_while_probes_learn_of_the_end_and_a_second_signal_ends_it(
    start: StartGateway, upstream: Upstream, client: httpx.Client, processes: int, http: str
) -> None:
    gateway = start(processes, http, delay="5m")
    upstream.script(hanging_stream())
    url, body = gateway.url + "/v1/chat/completions", {"model": "up", "messages": HELLO, "stream": True}
    with (
        client.stream("POST", url, json=body) as stream,
        open_session(gateway, "/v1/realtime?model=local-realtime") as session,
    ):
        lines = stream.iter_lines()
        assert "so far" in next(lines)
        assert json.loads(session.recv(PATIENCE_SECONDS))["type"] == "session.created"
        gateway.child.process.terminate()
        for _ in range(processes):
            gateway.child.wait_for_line("/readyz is 503")
        with httpx.Client(trust_env=False, timeout=PATIENCE_SECONDS, headers=HEADERS) as fresh:
            ready = fresh.get(gateway.url + "/readyz")
            assert (ready.status_code, ready.json()["status"]) == (503, "draining")
            served = fresh.post(url, json={"model": "local-chat", "messages": HELLO})
            assert (served.status_code, served.headers["connection"]) == (200, "close")
        gateway.child.process.terminate()
        last = [line for line in lines if line.startswith("data: ")]
        _, code, reason = read_end(session)
    assert json.loads(last[0].removeprefix("data: "))["error"]["code"] == "shutting_down"
    assert (code, reason) == (1001, "the gateway is shutting down")
    assert gateway.child.process.wait(PATIENCE_SECONDS) == 0
    assert {row["model"] for row in json.loads(list_usage(gateway))["data"]} >= {"up", "local-chat"}


def test_requests_that_take_too_long_end_with_an_error_of_their_format(
    start: StartGateway, upstream: Upstream, client: httpx.Client
) -> None:
    gateway = start(seconds="0")
    streams = {
        "/v1/chat/completions": {"messages": HELLO, "stream": True},
        "/v1/completions": {"prompt": "hi", "stream": True},
        "/v1/responses": {"input": "hi", "stream": True},
        "/v1/messages": {"messages": HELLO, "max_tokens": 9, "stream": True},
        f"{ARRAY}?alt=sse": {"contents": CONTENTS},
    }
    upstream.script(*[hanging_stream() for _ in streams])
    with ExitStack() as stack:
        opened = {}
        for path, body in streams.items():
            headers = {"anthropic-version": "2023-06-01"}
            request = client.stream("POST", gateway.url + path, json={"model": "up", **body}, headers=headers)
            lines = stack.enter_context(request).iter_lines()
            opened[path] = lines
            assert any("so far" in line for line in lines), path
        upstream.script(hanging_stream(), hanging_stream())
        array = stack.enter_context(client.stream("POST", f"{gateway.url}{ARRAY}", json={"contents": CONTENTS}))
        pieces, told = array.iter_text(), ""
        while "so far" not in told:
            told += next(pieces)
        session = stack.enter_context(open_session(gateway, "/v1/responses"))
        session.send(json.dumps({"type": "response.create", "model": "up", "input": "hi"}))
        while "so far" not in str(session.recv(PATIENCE_SECONDS)):
            pass
        gateway.child.process.terminate()
        last = {path: parse_last(list(lines)) for path, lines in opened.items()}
        elements = json.loads(told + "".join(pieces))
        messages, code, _ = read_end(session)
    assert last["/v1/chat/completions"]["error"]["code"] == "shutting_down"
    assert last["/v1/completions"]["error"]["code"] == "shutting_down"
    failed = last["/v1/responses"]
    assert (failed["type"], failed["response"]["error"]["code"]) == ("response.failed", "server_error"), failed
    assert last["/v1/messages"]["type"] == "error"
    assert last["/v1beta/models/up:streamGenerateContent?alt=sse"]["error"]["status"] == "UNAVAILABLE"
    assert [elements[-1].get("error", {}).get("status"), "error" in elements[0]] == ["UNAVAILABLE", False], elements
    assert (messages[-1]["type"], code) == ("response.failed", 1001)
    assert gateway.child.process.wait(PATIENCE_SECONDS) == 0
    assert gateway.wait_for_log("were still open after 0 s; they are ended").count("they are ended") == 1


def parse_last(lines: list[str]) -> Any:
    """The last event with data, except the mark of the end."""
    data = [line.removeprefix("data: ") for line in lines if line.startswith("data: ") and line != "data: [DONE]"]
    return json.loads(data[-1])


def test_ctrl_c_waits_for_no_probe_and_an_answer_that_has_not_begun_is_a_503(
    start: StartGateway, upstream: Upstream
) -> None:
    gateway = start(delay="1h", seconds="0")
    upstream.script(answer(Hang()))

    async def ask() -> httpx.Response:
        async with httpx.AsyncClient(trust_env=False, timeout=PATIENCE_SECONDS, headers=HEADERS) as client:
            body = {"model": "up", "messages": HELLO}
            asking = asyncio.ensure_future(client.post(gateway.url + "/v1/chat/completions", json=body))
            await asyncio.to_thread(upstream.wait_for_requests, 1)
            gateway.child.process.send_signal(signal.SIGINT)
            return await asking

    response = asyncio.run(ask())
    assert (response.status_code, response.json()["error"]["code"]) == (503, "shutting_down")
    assert response.headers["retry-after"] == "1"
    upstream.wait_until_closed(0)
    assert gateway.child.process.wait(PATIENCE_SECONDS) == 0


def test_a_second_signal_of_the_same_group_ends_nothing(
    start: StartGateway, upstream: Upstream, client: httpx.Client
) -> None:
    """A terminal, and systemd, signal each process of a group, and the supervisor forwards what it gets."""
    gateway = start(2)
    upstream.script(hanging_stream())
    url, body = gateway.url + "/v1/chat/completions", {"model": "up", "messages": HELLO, "stream": True}
    with client.stream("POST", url, json=body) as stream:
        lines = stream.iter_lines()
        next(lines)
        pid = gateway.child.process.pid
        os.killpg(pid, signal.SIGTERM)
        for _ in range(2):
            gateway.child.wait_for_line("draining: ")
        assert "they are ended" not in gateway.logs
        gateway.child.process.terminate()
        gateway.child.wait_for_line("they are ended")
    assert gateway.child.process.wait(PATIENCE_SECONDS) == 0
