"""An upstream that never ends is given up in bounded memory, in every lane: its connection is closed, the failure is noted."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.gateway import Gateway
from tests.support.process import Child

KEY = "test-key-of-endless-upstreams"
ATTACKS = (
    *("answer", "spaces", "tiny-chunks", "extension", "trailers", "event", "comments", "newlines", "events"),
    *("headers", "header", "status", "interim", "audio", "bomb"),
)
TOO_LARGE, EVENT = "upstream_answer_too_large", "upstream_event_too_large"
BROKEN, LOST = "upstream_error", "upstream_lost"
CONF = """
plugins: {{openai: true}}
server: {{access_log: true}}
providers:
{providers}
models:
{models}
limits: {{answer_bytes: 1000000, media_answer_bytes: 1000000, stream_bytes: 1500000, event_bytes: 500000}}
circuits: {{failures: 1000}}
keys: [{{name: a, key: {key}}}]
"""
PROVIDER = '  {name}: {{plugin: openai, base_url: "{url}/{name}/v1", api_key: key-of-the-upstream}}'
MESSAGES = [{"role": "user", "content": "hi"}]
LANES: dict[str, tuple[str, dict[str, Any]]] = {
    "verbatim": ("/v1/chat/completions", {"messages": MESSAGES}),
    "verbatim stream": ("/v1/chat/completions", {"messages": MESSAGES, "stream": True}),
    "common": ("/v1/messages", {"messages": MESSAGES, "max_tokens": 9}),
    "common stream": ("/v1/messages", {"messages": MESSAGES, "max_tokens": 9, "stream": True}),
}
HEAD_ATTACKS = {"headers", "header", "status", "interim", "extension", "trailers"}
GROWTH_BYTES = 96 * 1024 * 1024
"""What the gateway may need more than before, at its most, for all attacks of this file one after the other."""


@pytest.fixture(scope="module")
def endless() -> Iterator[str]:
    child = Child([sys.executable, "-m", "tests.support.endless"])
    yield child.wait_for_line(r"serving (http://\S+)")[1]
    child.stop()


@pytest.fixture(scope="module")
def gateway(endless: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    conf = CONF.format(
        key=KEY,
        providers="\n".join(PROVIDER.format(name=name, url=endless) for name in ATTACKS),
        models="\n".join(f"  {name}: {{provider: {name}}}" for name in ATTACKS),
    )
    started = Gateway.start(conf, tmp_path_factory.mktemp("endless"))
    yield started
    started.stop()


def send_request(gateway: Gateway, attack: str, path: str, body: dict[str, Any]) -> httpx.Response:
    headers = {"authorization": f"Bearer {KEY}", "anthropic-version": "2023-06-01"}
    sent = {"model": attack, **body}
    return httpx.post(gateway.url + path, json=sent, headers=headers, timeout=60, trust_env=False)


def find_code(answer: httpx.Response) -> str:
    """The code of the error, in a body or in the last event of a stream."""
    found = re.findall(r'"code":\s*"(\w+)"', answer.text)
    assert found, answer.text[-300:]
    return str(found[-1])


def measure_peak(gateway: Gateway) -> int:
    status = Path(f"/proc/{gateway.child.process.pid}/status").read_text(encoding="ascii")
    found = re.search(r"VmHWM:\s+(\d+) kB", status)
    assert found
    return int(found[1]) * 1024


def count_errors(gateway: Gateway, attack: str) -> float:
    text = httpx.get(f"{gateway.url}/metrics", trust_env=False, timeout=60).text
    lines = [line for line in text.splitlines() if line.startswith("tornado_gate_upstream_errors_total{")]
    return sum(float(line.rpartition(" ")[2]) for line in lines if f'provider="{attack}"' in line)


@pytest.fixture(scope="module")
def memory_before(gateway: Gateway, endless: str) -> int:
    """After a first failure in each lane, which imports what requests need."""
    for path, body in LANES.values():
        send_request(gateway, "header", path, body)
    return measure_peak(gateway)


CASES = [
    *((attack, lane) for attack in ATTACKS if attack not in {*HEAD_ATTACKS, "audio"} for lane in LANES),
    *((attack, "verbatim") for attack in sorted(HEAD_ATTACKS)),  # the lanes do not see them
]


@pytest.mark.parametrize(("attack", "lane"), CASES)
def test_a_response_without_an_end_is_given_up(
    gateway: Gateway, endless: str, memory_before: int, attack: str, lane: str
) -> None:
    path, body = LANES[lane]
    errors = count_errors(gateway, attack)
    answered = send_request(gateway, attack, path, body)
    code = find_code(answered)
    if attack in HEAD_ATTACKS:
        assert code in (BROKEN, LOST, TOO_LARGE)
    elif attack == "event":
        assert code in (EVENT, TOO_LARGE)
    elif attack == "bomb":
        assert code in ("upstream_compression_too_high", TOO_LARGE)
    else:
        assert code == TOO_LARGE
    has_begun = attack == "events" and lane != "common"  # what the upstream calls a stream is forwarded as one
    assert answered.status_code == (200 if has_begun else 502)
    httpx.get(f"{endless}/__closed/{attack}", trust_env=False, timeout=60).raise_for_status()
    assert count_errors(gateway, attack) == errors + 1
    assert measure_peak(gateway) - memory_before < GROWTH_BYTES


def test_a_stream_that_is_given_up_costs_what_it_has_produced(gateway: Gateway, endless: str) -> None:
    path, body = LANES["verbatim stream"]
    request_id = send_request(gateway, "events", path, body).headers["x-request-id"]
    line = gateway.child.wait_for_line(
        rf'^(.*"request_id":"{request_id}".*"status":200.*|.*"status":200.*"{request_id}".*)$'
    )[1]
    entry = json.loads(line)
    assert (entry["error"], entry["outcome"]) == (TOO_LARGE, "broken")


@pytest.mark.parametrize("attack", ["answer", "spaces", "bomb"])
@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/images/generations", {"prompt": "hi"}),
        ("/v1/moderations", {"input": "hi"}),
        ("/v1/responses", {"input": "hi", "store": False}),
    ],
    ids=["images", "moderations", "responses"],
)
def test_other_operations_have_bounds_too(
    gateway: Gateway, endless: str, memory_before: int, attack: str, path: str, body: dict[str, Any]
) -> None:
    answered = send_request(gateway, attack, path, body)
    assert answered.status_code == 502
    assert find_code(answered) in (TOO_LARGE, "upstream_compression_too_high")
    httpx.get(f"{endless}/__closed/{attack}", trust_env=False, timeout=60).raise_for_status()
    assert measure_peak(gateway) - memory_before < GROWTH_BYTES


@pytest.mark.parametrize(
    ("attack", "path", "body"),
    [
        ("audio", "/v1/audio/speech", {"input": "hi", "voice": "alloy"}),
        ("answer", "/v1/embeddings", {"input": "hi"}),
    ],
)
def test_what_is_forwarded_as_it_arrives_is_cut_off(
    gateway: Gateway, endless: str, memory_before: int, attack: str, path: str, body: dict[str, Any]
) -> None:
    """Its status line and its beginning are with the caller: the connection breaks, so that nobody takes it for complete."""
    with pytest.raises(httpx.RemoteProtocolError):
        send_request(gateway, attack, path, body)
    httpx.get(f"{endless}/__closed/{attack}", trust_env=False, timeout=60).raise_for_status()
    assert measure_peak(gateway) - memory_before < GROWTH_BYTES
