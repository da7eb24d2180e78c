"""Conversations that the gateway keeps: their limits, and which items a target gets."""

from __future__ import annotations

import asyncio
from typing import Any

import orjson
import pytest
from format_openai_calls import FakeMemory, call_for, text_of, wire_with
from responses_calls import response_call

import tornado_gate_openai.format as plugin
from tornado_gate.errors import InvalidField, NotFound, RequestError
from tornado_gate.types import NO_TARGET, IssuedObjects, replace
from tornado_gate_openai.format.stored import conversation_store, keeping
from tornado_gate_openai.format.verbatim import KeptTurn, OpenAIForwardState

ALL = "/v1/conversations"
USER: dict[str, Any] = {"role": "user", "content": "Hi"}


def ask(memory: FakeMemory, path: str, body: Any = None, method: str = "", **arguments: str) -> Any:
    async def answer() -> Any:
        return await plugin.translate_request(response_call(memory), wire_with(body, path, method=method, **arguments))  # type: ignore[misc]

    return orjson.loads(text_of(asyncio.run(answer())))


@pytest.fixture
def memory() -> FakeMemory:
    return FakeMemory()


@pytest.fixture
def made(memory: FakeMemory) -> str:
    return str(ask(memory, ALL, {"items": [USER]})["id"])


@pytest.mark.parametrize("limit", ["MAX_ITEMS", "MAX_BYTES"])
def test_a_full_conversation_gets_no_more_items(
    memory: FakeMemory, made: str, monkeypatch: pytest.MonkeyPatch, limit: str
) -> None:
    monkeypatch.setattr(conversation_store, limit, 1)
    with pytest.raises(RequestError) as caught:
        ask(memory, f"{ALL}/{{conversation_id}}/items", {"items": [USER]}, conversation_id=made)
    assert (caught.value.code, caught.value.param) == ("conversation_too_large", "items")
    body = {"model": "m", "input": "Hi", "conversation": made}
    for hook in (plugin.translate_request, plugin.forward_request):
        with pytest.raises(RequestError) as caught:
            asyncio.run(hook(response_call(memory), wire_with(body, "/v1/responses")))  # type: ignore[arg-type]
        assert (caught.value.code, caught.value.param) == ("conversation_too_large", "conversation")
    assert ask(memory, f"{ALL}/{{conversation_id}}", None, "DELETE", conversation_id=made)["deleted"]


@pytest.mark.parametrize("name", ["conv_x", "", "conv_" + "0" * 32, "{made}:1", "{made}/items", "{made}\n"])
def test_an_id_that_the_gateway_did_not_make_is_not_found(memory: FakeMemory, made: str, name: str) -> None:
    with pytest.raises(NotFound):
        ask(memory, f"{ALL}/{{conversation_id}}", None, "DELETE", conversation_id=name.format(made=made))
    assert ask(memory, f"{ALL}/{{conversation_id}}", conversation_id=made)["id"] == made


def test_a_turn_of_a_deleted_conversation_is_dropped(memory: FakeMemory, made: str) -> None:
    async def run() -> None:
        call = response_call(memory)
        await conversation_store.delete(call, made)
        await conversation_store.add_turn(call, made, [USER], [], "", False)

    asyncio.run(run())
    assert memory.values == {}


def test_a_target_gets_the_ids_that_its_own_upstream_knows(memory: FakeMemory, made: str) -> None:
    said = {"id": "msg_up", "type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Yes"}]}
    thought = {"id": "rs_up", "type": "reasoning", "summary": []}
    sealed = {**thought, "encrypted_content": "x"}

    async def select(provider: str, stored: bool) -> list[Any]:
        call = response_call(memory)
        await conversation_store.add_turn(call, made, [], [thought, sealed, said], "p", stored)
        target = replace(call.target, provider=provider) if provider else NO_TARGET
        found = await conversation_store.get(call, made, "")
        return conversation_store.select_items(replace(call, target=target), found)[-3:]

    bare = {name: value for name, value in said.items() if name != "id"}
    assert asyncio.run(select("p", True)) == [thought, sealed, said]
    assert asyncio.run(select("p", False))[-2:] == [sealed, said]
    for provider in ("q", ""):
        found = asyncio.run(select(provider, True))
        assert bare in found
        assert not any(item["type"] == "reasoning" for item in found)


def test_ids_of_files_in_a_conversation_are_checked_for_each_target(memory: FakeMemory, made: str) -> None:
    """They may have come in with a request to another provider, which shares its files."""
    part = {"type": "input_file", "file_id": "file-1"}
    body = {"model": "m", "input": "Hi", "conversation": made}

    async def forward(*shared: str) -> Any:
        call = response_call(memory)
        target = replace(call.target, shared_objects=frozenset(shared))
        return await plugin.forward_request(replace(call, target=target), wire_with(body, "/v1/responses"))  # type: ignore[misc]

    asyncio.run(conversation_store.add_turn(response_call(memory), made, [{**USER, "content": [part]}], [], "", False))
    with pytest.raises(NotFound) as caught:
        asyncio.run(forward())
    assert (caught.value.code, caught.value.param) == ("file_not_found", "conversation")
    assert part in asyncio.run(forward("file")).body["input"][1]["content"]


def test_only_events_with_a_response_are_changed() -> None:
    kept = KeptTurn(items=(), conversation="conv_1")
    meter = keeping.KeepingMeter(call_for(), IssuedObjects(), OpenAIForwardState(kept=kept), kept)
    delta = b'event: response.output_text.delta\ndata: {"type":"response.output_text.delta","delta":"\\"response.created\\""}\n\n'
    assert meter.render_frame(delta) == delta
    assert meter.render_frame(b": ping\n\n") == b": ping\n\n"
    created = b'event: response.created\ndata: {"type": "response.created", "response": {"id": "r"}}\n\n'
    event = orjson.loads(meter.render_frame(created).split(b"data: ")[1])
    assert event == {"type": "response.created", "response": {"id": "r", "conversation": {"id": "conv_1"}}}


def test_a_conversation_without_permission_to_store_is_refused(made: str, memory: FakeMemory) -> None:
    call = response_call(memory)
    never = replace(call, responses=replace(call.responses, store="never"))
    body = {"model": "m", "input": "Hi", "conversation": made}
    for hook in (plugin.translate_request, plugin.forward_request):
        with pytest.raises(InvalidField, match="keeps no conversations"):
            asyncio.run(hook(never, wire_with(body, "/v1/responses")))  # type: ignore[arg-type]


def test_what_was_kept_before_conf_forbids_it_can_be_read_and_deleted(made: str, memory: FakeMemory) -> None:
    async def run(method: str, body: Any = None, path: str = f"{ALL}/{{conversation_id}}") -> Any:
        call = response_call(memory)
        never = replace(call, responses=replace(call.responses, store="never"))
        return await plugin.translate_request(never, wire_with(body, path, method=method, conversation_id=made))  # type: ignore[misc]

    for method, body, path in (
        ("POST", {"metadata": {}}, f"{ALL}/{{conversation_id}}"),
        ("POST", {"items": [USER]}, f"{ALL}/{{conversation_id}}/items"),
    ):
        with pytest.raises(InvalidField, match="keeps no conversations"):
            asyncio.run(run(method, body, path))
    assert orjson.loads(text_of(asyncio.run(run("GET"))))["id"] == made
    assert orjson.loads(text_of(asyncio.run(run("DELETE"))))["deleted"]
    assert memory.values == {}


def test_an_invalid_body_is_refused_with_the_path_of_its_fault(memory: FakeMemory, made: str) -> None:
    paths = {"new": ALL, "changed": f"{ALL}/{{conversation_id}}", "items": f"{ALL}/{{conversation_id}}/items"}
    for path, body, param in [
        ("new", {"items": "Hi"}, "items"),
        ("new", {"items": [USER] * 21}, "items"),
        ("new", {"items": [{**USER, "content": None}]}, "items.0.content"),
        ("new", {"items": [USER, {"id": "msg_1"}]}, "items.1"),
        ("new", {"metadata": []}, "metadata"),
        ("new", {"metadata": {"a": 1}}, "metadata.a"),
        ("new", {"metadata": dict.fromkeys("abcdefghijklmnopq", "")}, "metadata"),
        ("changed", {}, "metadata"),
        ("changed", {"metadata": {"n" * 65: ""}}, f"metadata.{'n' * 64}"),
        ("changed", {"metadata": {"a": "v" * 513}}, "metadata.a"),
        ("items", {}, "items"),
        ("items", {"items": None}, "items"),
        ("items", {"items": []}, "items"),
        ("items", {"items": [{"type": "compaction_trigger"}]}, "items.0"),
    ]:
        with pytest.raises(InvalidField) as caught:
            ask(memory, paths[path], body, "POST", conversation_id=made)
        assert caught.value.param == param, body


def test_members_may_be_null_or_empty(memory: FakeMemory, made: str) -> None:
    for body in ({}, {"items": None, "metadata": None}, {"items": [], "metadata": {}}):
        assert ask(memory, ALL, body)["metadata"] == {}
    assert ask(memory, f"{ALL}/{{conversation_id}}", {"metadata": None}, "POST", conversation_id=made)["metadata"] == {}
