"""A response that an upstream keeps is continued at other targets from the gateway's copy."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import openai
import pytest

from qa.sdk.stateful_gateway import KEYS, asked, client_of, make_answer, render_conf, send, serve
from tests.support.gateway import Gateway
from tests.support.node import run_script
from tests.support.stored_responses import answer_stream, events_of, message, response
from tests.support.upstream import Upstream, answer

NO_COPIES = "responses: {copies: false}\n"
REASONING: Any = {"type": "reasoning", "id": "rs_x", "summary": [], "encrypted_content": "of-vendor"}
SEARCH: Any = {
    "type": "web_search_call",
    "id": "ws_x",
    "status": "completed",
    "action": {"type": "search", "query": "fox"},
}
BUSY = '{"error": {"message": "busy"}}'


@pytest.fixture(scope="module")
def gateway(upstream_process: Upstream, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    with serve(upstream_process, tmp_path_factory.mktemp("copies")) as started:
        yield started


@pytest.fixture
def client(gateway: Gateway) -> Iterator[openai.OpenAI]:
    with client_of(gateway, "a") as made:
        yield made


def create(
    client: openai.OpenAI, upstream: Upstream, name: str, *items: Any, stream: bool = False, **fields: Any
) -> str:
    """Create the response ``resp_NAME`` at the upstream ``vendor``."""
    made = response(name, *items)
    upstream.script(answer_stream(*events_of(made)) if stream else answer(json.dumps(made)))
    fields = {"model": "vendor", "input": f"question {name}", **fields}
    if stream:
        *_, last = client.responses.create(stream=True, **fields)
        assert last.response.id == f"resp_{name}"
    else:
        assert client.responses.create(**fields).id == f"resp_{name}"
    upstream.reset()
    return f"resp_{name}"


@pytest.mark.parametrize("stream", [False, True])
def test_another_target_gets_the_turns(client: openai.OpenAI, upstream: Upstream, stream: bool) -> None:
    name = f"first-{stream}"
    first = create(client, upstream, name, REASONING, message("msg_y", "text of first"), stream=stream)
    second = create(client, upstream, f"second-{stream}", previous_response_id=first, stream=stream)
    upstream.script(make_answer("claude", "Yes."), answer(json.dumps(response("elsewhere"))))
    client.responses.create(model="claude", input="On", previous_response_id=second)
    client.responses.create(model="other", input="On", previous_response_id=second)
    claude, other = upstream.requests
    question = asked("claude", claude.json)
    said = (f"question {name}", "text of first", f"question second-{stream}", f"text of second-{stream}", "On")
    places = [question.index(text) for text in said]
    assert places == sorted(places)
    assert other.path == "/other/v1/responses"
    assert "previous_response_id" not in other.json
    assert [item["type"] for item in other.json["input"]] == ["message"] * 5
    assert "of-vendor" not in json.dumps(other.json)
    assert all("id" not in item for item in other.json["input"])


def test_the_issuer_still_gets_the_id(client: openai.OpenAI, upstream: Upstream) -> None:
    first = create(client, upstream, "issued")
    upstream.script(answer(json.dumps(response("issued-next"))))
    client.responses.create(model="vendor", input="On", previous_response_id=first)
    assert upstream.requests[0].json == {"model": "up-vendor", "input": "On", "previous_response_id": first}


def test_a_fallback_continues_when_the_issuer_fails(client: openai.OpenAI, upstream: Upstream) -> None:
    first = create(client, upstream, "failing", model="fallback")
    upstream.script(answer(BUSY, status=503), make_answer("claude", "Yes."))
    found = client.responses.with_raw_response.create(model="fallback", input="On", previous_response_id=first)
    assert found.headers["x-gate-provider"] == "claude"
    assert found.parse().output_text == "Yes."
    issuer, claude = upstream.requests
    assert issuer.json["previous_response_id"] == first
    assert "text of failing" in asked("claude", claude.json)


def test_what_only_the_issuer_knows_is_reported(client: openai.OpenAI, upstream: Upstream) -> None:
    first = create(client, upstream, "searched", SEARCH, message("msg_z", "Found."))
    upstream.script(make_answer("claude", "Yes."))
    found = client.responses.with_raw_response.create(model="claude", input="On", previous_response_id=first)
    assert found.headers["x-gate-loss"] == "previous_response_id"
    assert "Found." in asked("claude", upstream.requests[0].json)


def test_an_answer_of_another_model_is_continued_at_the_vendor(client: openai.OpenAI, upstream: Upstream) -> None:
    """Turns of both kinds in one chain."""
    first = create(client, upstream, "chain")
    upstream.script(
        make_answer("claude", "From Claude."), answer(json.dumps(response("chain-end"))), make_answer("gemini", "Yes.")
    )
    second = client.responses.create(model="claude", input="two", previous_response_id=first)
    third = client.responses.create(model="vendor", input="three", previous_response_id=second.id)
    client.responses.create(model="gemini", input="four", previous_response_id=third.id)
    _, vendor, gemini = upstream.requests
    assert len(vendor.json["input"]) == 5
    question = asked("gemini", gemini.json)
    said = ("question chain", "text of chain", "two", "From Claude.", "three", "text of chain-end", "four")
    places = [question.index(text) for text in said]
    assert places == sorted(places)


def test_a_copy_belongs_to_its_account(gateway: Gateway, client: openai.OpenAI, upstream: Upstream) -> None:
    create(client, upstream, "owned")
    for model in ("vendor", "other", "claude"):
        theirs, unknown = (
            send(gateway, "b", "POST", "/responses", {"model": model, "input": "Hi", "previous_response_id": name})
            for name in ("resp_owned", "resp_nobod")
        )
        assert (theirs.status_code, theirs.json()["error"]["code"]) == (400, "previous_response_not_found")
        assert theirs.text.replace("owned", "nobod") == unknown.text
    assert upstream.requests == []


def test_a_deleted_response_has_no_copy(gateway: Gateway, client: openai.OpenAI, upstream: Upstream) -> None:
    first = create(client, upstream, "deleted")
    upstream.script(answer(json.dumps(response("deleted"))), answer(json.dumps({"id": first, "deleted": True})))
    client.responses.retrieve(first)
    client.responses.delete(first)
    assert [request.method for request in upstream.requests] == ["GET", "DELETE"]  # the issuer answers, not the copy
    upstream.reset()
    with pytest.raises(openai.BadRequestError) as caught:
        client.responses.create(model="claude", input="On", previous_response_id=first)
    assert caught.value.code == "previous_response_not_found"


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param({"store": False}, id="not stored"),
        pytest.param({"previous_response_id": "resp_uncopied"}, id="after a turn without a copy"),
    ],
)
def test_what_cannot_be_continued_is_not_copied(
    gateway: Gateway, upstream: Upstream, tmp_path: Path, fields: dict[str, Any]
) -> None:
    upstream.script(answer(json.dumps(response("uncopied", store=False))))
    with client_of(gateway, "a") as client:
        if "store" in fields:
            client.responses.create(model="vendor", input="secret prompt", **fields)
        else:
            with pytest.raises(openai.BadRequestError):
                client.responses.create(model="vendor", input="secret prompt", **fields)
    assert not any(
        b"secret prompt" in file.read_bytes() for file in (gateway.folder / "var").rglob("*") if file.is_file()
    )


@pytest.mark.parametrize("more", [NO_COPIES, "responses: {store: never}\n", "responses: {store: ask}\n"])
def test_nothing_is_copied_if_conf_forbids_it(upstream: Upstream, tmp_path: Path, more: str) -> None:
    with serve(upstream, tmp_path, more) as gateway, client_of(gateway, "a") as client:
        create(client, upstream, "plain", input="secret prompt")
        files = [file for file in (gateway.folder / "var").rglob("*") if file.is_file()]
        assert not any(b"secret prompt" in file.read_bytes() for file in files)
        with pytest.raises(openai.BadRequestError) as caught:
            client.responses.create(model="claude", input="On", previous_response_id="resp_plain")
        assert caught.value.code == ("object_kept_elsewhere" if more == NO_COPIES else "previous_response_not_found")
    assert upstream.requests == []


def test_a_copy_survives_a_kill(upstream: Upstream, tmp_path: Path) -> None:
    conf = render_conf(upstream.url)
    gateway = Gateway.start(conf, tmp_path)
    with client_of(gateway, "a") as client:
        first = create(client, upstream, "durable")
    gateway.child.kill()
    again = Gateway.start(conf, tmp_path)
    try:
        with client_of(again, "a") as client:
            upstream.script(make_answer("claude", "Yes."))
            client.responses.create(model="claude", input="On", previous_response_id=first)
        assert "text of durable" in asked("claude", upstream.requests[0].json)
    finally:
        again.stop()


def test_the_vendors_sdk_for_node_continues_elsewhere_too(gateway: Gateway, upstream: Upstream) -> None:
    upstream.script(answer(json.dumps(response("by-node"))), make_answer("claude", "Yes."))
    found = run_script("continued.mjs", f"{gateway.url}/v1", KEYS["a"], "vendor", "claude")
    assert found == {"first": "resp_by-node", "answer": "Yes."}
    assert "text of by-node" in asked("claude", upstream.requests[1].json)
