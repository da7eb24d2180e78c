"""The texts of errors in the ledger: what the caller received, and for administrators what the upstream said."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

import httpx
import pytest

from tests.support.gateway import Gateway
from tests.support.upstream import DONE, Answer, Upstream, answer, sse
from tornado_gate.database.opening import open_database
from tornado_gate.ledger.reports import Reports
from tornado_gate.ledger.rows import RequestRow
from tornado_gate.server.admin.scope import Scope
from tornado_gate.server.admin.usage_routes import describe_request

KEY = "test-key-of-errors"
VENDOR_KEY = "vendor-key-0123456789abcdef"


def say(message: str) -> str:
    return json.dumps({"error": {"message": message, "type": "t"}})


CHUNK = {"id": "c", "object": "chat.completion.chunk", "choices": [{"index": 0, "delta": {"content": "a"}}]}
REPLY = json.dumps(
    {
        "id": "c", "object": "chat.completion", "created": 1, "model": "gpt-4o",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": "hi"}, "finish_reason": "stop"}],
    }
)  # fmt: skip
REFUSAL = f"Unknown field 'x' with {VENDOR_KEY} and sk-abcdefgh12345678." + "y" * 1000
BROKEN = sse({"error": {"message": "The stream broke here", "type": "t"}})
ANSWERS: dict[str, Answer] = {
    "refused": answer(say(REFUSAL), status=400),
    "key": answer(say(f"Incorrect API key provided: {VENDOR_KEY}. Org org-7."), status=401),
    "crash": answer(say("worker 7 of pool blue crashed"), status=500),
    "stream": answer(sse(CHUNK), BROKEN, sse(DONE)),
    "fine": answer(REPLY),
}


class Recorded(NamedTuple):
    """The response that the caller received, and the row of the ledger."""

    text: str
    row: RequestRow


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Recorded]:
    """One request for each of ANSWERS, and one that the gateway refuses itself, by their ids."""
    folder, upstream = tmp_path_factory.mktemp("errors"), Upstream.start()
    upstream.script(*ANSWERS.values())
    gateway = Gateway.start(
        f"""
plugins: {{openai: true}}
providers: {{openai: {{plugin: openai, base_url: "{upstream.url}/v1", api_key: {VENDOR_KEY}}}}}
models: {{gpt-4o: {{provider: openai}}}}
keys: [{{name: test, key: {KEY}, team: research}}]
""",
        folder,
    )
    texts = {name: send_chat(gateway, name, stream=name == "stream") for name in ANSWERS}
    texts["own"] = send_chat(gateway, "own", n="two")
    gateway.stop()
    upstream.stop()
    database = open_database(folder / "var")
    rows = {row.request_id: row for row in Reports(database).requests()}
    database.close()
    return {name: Recorded(text, rows[name]) for name, text in texts.items()}


def send_chat(gateway: Gateway, request_id: str, **body: Any) -> str:
    headers = {"authorization": f"Bearer {KEY}", "x-request-id": request_id}
    content = {"model": "gpt-4o", "messages": [{"role": "user", "content": "Hi"}], **body}
    url = f"{gateway.url}/v1/chat/completions"
    return httpx.post(url, json=content, headers=headers, trust_env=False, timeout=60).text


def test_the_text_of_a_refused_request_is_kept_without_keys(recorded: dict[str, Recorded]) -> None:
    text, row = recorded["refused"]
    assert "Unknown field" in text
    assert row.error_message.startswith("Unknown field 'x' with *** and sk-***")
    assert len(row.error_message.encode()) <= 500
    assert row.error_detail == ""


def test_what_a_vendor_says_of_the_gateways_key_is_for_administrators(recorded: dict[str, Recorded]) -> None:
    text, row = recorded["key"]
    assert "org-7" not in text
    assert row.error_message == (
        "The provider 'openai' refused the gateway's own credentials. Tell an administrator of the gateway."
    )
    assert row.error_detail == (
        "Check the provider's api_key and its account. The upstream said: Incorrect API key provided: ***. Org org-7."
    )


def test_a_limited_key_reads_no_detail(recorded: dict[str, Recorded]) -> None:
    row = recorded["key"].row
    assert describe_request(row, Scope()).error_detail == row.error_detail
    assert describe_request(row, Scope(limitations=frozenset({"administration"}))).error_detail == row.error_detail
    assert describe_request(row, Scope(team="research", limitations=frozenset({"team"}))).error_detail == ""


def test_the_text_of_a_server_error_is_for_administrators(recorded: dict[str, Recorded]) -> None:
    text, row = recorded["crash"]
    assert "pool blue" not in text
    assert "pool blue" not in row.error_message
    assert row.error_detail == "The upstream said: worker 7 of pool blue crashed"


def test_a_stream_that_fails_keeps_its_text(recorded: dict[str, Recorded]) -> None:
    text, row = recorded["stream"]
    assert "The stream broke here" in text
    assert (row.outcome, row.error_message) == ("broken", "The stream broke here")


def test_the_text_of_the_gateways_own_checks_is_kept(recorded: dict[str, Recorded]) -> None:
    text, row = recorded["own"]
    assert row.status == 400
    assert row.error_message == json.loads(text)["error"]["message"]


def test_a_request_without_an_error_has_no_text(recorded: dict[str, Recorded]) -> None:
    row = recorded["fine"].row
    assert (row.status, row.error_message, row.error_detail) == (200, "", "")
