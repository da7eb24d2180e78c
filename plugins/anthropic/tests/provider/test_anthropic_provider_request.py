"""What goes up, on both lanes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import orjson
import pytest

import tornado_gate_anthropic.provider as plugin
from tornado_gate.errors import InvalidField, UnsupportedOperation
from tornado_gate.types import Call, ChatRequest, CountTokensRequest, ModelsRequest, Reasoning, Tool, VerbatimRequest

MakeCall = Callable[..., Call]
MakeChat = Callable[..., ChatRequest]

RAW = b'{ "model" : "sonnet",\n "max_tokens": 5, "messages":[{"role":"user","content":"caf\\u00e9"}], "x-own": 1e2 }'


def verbatim(raw: bytes = RAW, **rest: Any) -> VerbatimRequest:
    facts: dict[str, Any] = {"wire_format": "anthropic-messages", "operation": "chat", "path": "/v1/messages"}
    return VerbatimRequest(raw=raw, **({"body": orjson.loads(raw)} | facts | rest))


# The verbatim lane


def test_only_the_model_is_changed_and_no_other_byte(call: MakeCall) -> None:
    outgoing = plugin.translate_request(call(), verbatim())
    assert outgoing.body == RAW.replace(b'"sonnet"', b'"claude-sonnet-4-5"')
    assert outgoing.json is None
    assert (outgoing.url, outgoing.method) == ("https://upstream.test/v1/messages", "POST")


def test_a_body_that_needs_no_change_is_the_same_object(call: MakeCall) -> None:
    raw = RAW.replace(b'"sonnet"', b'"claude-sonnet-4-\\u0035"')
    assert plugin.translate_request(call(), verbatim(raw)).body is raw


@pytest.mark.parametrize(
    ("raw", "facts", "settings", "expected"),
    [
        (b'{"model":"claude-sonnet-4-5"}', {}, {}, 16384),
        (b'{"model":"claude-sonnet-4-5","max_tokens":null}', {}, {"default_max_tokens": 100}, 100),
        (b'{"model":"claude-sonnet-4-5"}', {"output_token_limit": 64000}, {}, 64000),
        (b'{"model":"claude-sonnet-4-5","thinking":{"type":"enabled","budget_tokens":5000}}', {}, {}, 21384),
    ],
)
def test_a_missing_limit_is_added(call: MakeCall, raw: bytes, facts: Any, settings: Any, expected: int) -> None:
    outgoing = plugin.translate_request(call(facts=facts, **settings), verbatim(raw))
    assert orjson.loads(outgoing.body or b"") == {**orjson.loads(raw), "max_tokens": expected}


def test_a_request_for_a_count_goes_to_its_own_path_and_gets_no_limit(call: MakeCall) -> None:
    raw = b'{"model":"claude-sonnet-4-5","messages":[]}'
    outgoing = plugin.translate_request(call(), verbatim(raw, operation="count_tokens"))
    assert outgoing.url == "https://upstream.test/v1/messages/count_tokens"
    assert outgoing.body is raw


def test_the_callers_version_is_passed_on(call: MakeCall) -> None:
    used = call(callers={"anthropic-version": "2026-10-21"}, version="2024-01-01")
    assert plugin.translate_request(used, verbatim()).headers["anthropic-version"] == "2026-10-21"


def test_betas_that_conf_allows_are_passed_on_and_others_are_reported(call: MakeCall) -> None:
    asked = {"anthropic-beta": "context-management-2025-06-27, files-api-2025-04-14 ,,x"}
    used = call(callers=asked, betas=["context-*", "x"])
    assert plugin.translate_request(used, verbatim()).headers["anthropic-beta"] == "context-management-2025-06-27,x"
    assert used.losses == ["anthropic-beta"]


@pytest.mark.parametrize("settings", [{}, {"betas": ["*"]}])
def test_betas_are_passed_on_unchanged_unless_conf_narrows_them(call: MakeCall, settings: Any) -> None:
    asked = "context-management-2025-06-27, files-api-2025-04-14 ,,x"
    used = call(callers={"anthropic-beta": asked}, **settings)
    assert plugin.translate_request(used, verbatim()).headers["anthropic-beta"] == asked
    assert used.losses == []


def test_a_beta_that_no_header_can_have_is_dropped(call: MakeCall) -> None:
    used = call(callers={"anthropic-beta": "a,\udce4"})
    assert plugin.translate_request(used, verbatim()).headers["anthropic-beta"] == "a"
    assert used.losses == ["anthropic-beta"]


def test_betas_of_a_translated_chat_are_passed_on_as_headers(call: MakeCall, chat: Any) -> None:
    own = chat(wire_format="anthropic-messages", extra={"anthropic-beta": "a,b", "x_new": 1})
    for request in (own, CountTokensRequest(model="sonnet", chat=own)):
        used = call()
        outgoing = plugin.translate_request(used, request)
        assert outgoing.headers["anthropic-beta"] == "a,b"
        assert "anthropic-beta" not in outgoing.json
        assert used.losses == []
    narrowed = call(betas=["b"])
    assert plugin.translate_request(narrowed, own).headers["anthropic-beta"] == "b"
    assert narrowed.losses == ["anthropic-beta"]


@pytest.mark.parametrize(
    ("settings", "allowed"), [({}, False), ({"betas": ["*"]}, False), ({"betas": ["*", "message-threads-*"]}, True)]
)
def test_threads_need_their_beta_by_name(call: MakeCall, settings: Any, allowed: bool) -> None:
    """An upstream keeps a thread under an id, with which every caller of the entry could continue it."""
    used = call(callers={"anthropic-beta": "message-threads-2026-08-01"}, **settings)
    body = {"model": "claude-sonnet-4-5", "max_tokens": 5, "messages": [], "thread": {"previous_message_id": "msg_1"}}
    request = verbatim(orjson.dumps(body))
    if allowed:
        assert b"previous_message_id" in plugin.translate_request(used, request).body
    else:
        with pytest.raises(InvalidField, match="thread"):
            plugin.translate_request(used, request)


def test_without_permission_no_beta_is_passed_on(call: MakeCall) -> None:
    used = call(callers={"anthropic-beta": "files-api-2025-04-14"}, betas=[])
    assert "anthropic-beta" not in plugin.translate_request(used, verbatim()).headers
    assert used.losses == ["anthropic-beta"]
    with pytest.raises(InvalidField):
        plugin.translate_request(call(callers={"anthropic-beta": "x"}, strict=True, betas=[]), verbatim())


OWN = {"type": "thinking", "thinking": "hm", "signature": "EqQBCkYI"}
TEXT = {"type": "text", "text": "Hi"}


@pytest.mark.parametrize(
    ("block", "kept"),
    [
        (OWN, True),
        ({"type": "thinking", "thinking": "hm", "signature": ""}, False),
        ({"type": "thinking", "thinking": "hm"}, False),
        ({"type": "thinking", "thinking": "hm", "signature": None}, False),
        ({"type": "thinking", "thinking": "hm", "signature": "gAAAAABo-encrypted"}, False),
        ({"type": "redacted_thinking", "data": "gAAAAABo-encrypted"}, False),
        ({"type": "redacted_thinking", "data": "EqQBCkYI"}, True),
        ({"type": "text", "text": '"signature": ""'}, True),
    ],
)
def test_thinking_that_the_vendor_did_not_sign_never_reaches_it(call: MakeCall, block: Any, kept: bool) -> None:
    messages = [
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": [block, OWN, TEXT]},
        {"role": "user", "content": [TEXT]},
    ]
    raw = orjson.dumps({"model": "claude-sonnet-4-5", "max_tokens": 5, "messages": messages})
    used = call()
    sent = orjson.loads(plugin.translate_request(used, verbatim(raw)).body or b"")
    assert sent["messages"][1]["content"] == ([block, OWN, TEXT] if kept else [OWN, TEXT])
    assert (sent["messages"][0], sent["messages"][2]) == (messages[0], messages[2])
    assert used.losses == ([] if kept else ["messages.1.content.0"])


def test_a_turn_of_foreign_thinking_alone_is_left_out(call: MakeCall) -> None:
    foreign = {"role": "assistant", "content": [{"type": "thinking", "thinking": "hm", "signature": ""}]}
    user = {"role": "user", "content": "Hi"}
    raw = orjson.dumps(
        {"model": "claude-sonnet-4-5", "max_tokens": 5, "messages": [user, foreign]}, option=orjson.OPT_INDENT_2
    )
    outgoing = plugin.translate_request(call(), verbatim(raw))
    assert orjson.loads(outgoing.body or b"")["messages"] == [user]


def test_a_vendor_that_signs_nothing_gets_its_thinking_back(call: MakeCall) -> None:
    messages = [{"role": "assistant", "content": [{"type": "thinking", "thinking": "hm"}, TEXT]}]
    raw = orjson.dumps({"model": "deepseek-v4-pro", "max_tokens": 5, "messages": messages})
    assert plugin.translate_request(call(upstream_model="deepseek-v4-pro"), verbatim(raw)).body is raw


def test_a_conversation_of_foreign_thinking_alone_is_refused(call: MakeCall) -> None:
    messages = [{"role": "assistant", "content": [{"type": "thinking", "thinking": "hm"}]}]
    raw = orjson.dumps({"model": "claude-sonnet-4-5", "max_tokens": 5, "messages": messages})
    with pytest.raises(InvalidField) as caught:
        plugin.translate_request(call(), verbatim(raw))
    assert (caught.value.param, caught.value.code) == ("messages", "empty_conversation")


def test_thinking_is_switched_off_where_the_vendor_requires_what_was_removed(call: MakeCall) -> None:
    said = [{"type": "thinking", "thinking": "hm"}, {"type": "tool_use", "id": "t", "name": "f", "input": {}}]
    messages = [
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": said},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t"}]},
    ]
    thinking = {"type": "enabled", "budget_tokens": 1024}
    body = {"model": "claude-sonnet-4-5", "max_tokens": 2000, "messages": messages, "thinking": thinking}
    used = call()
    sent = orjson.loads(plugin.translate_request(used, verbatim(orjson.dumps(body))).body or b"")
    assert sent["thinking"] == {"type": "disabled"}
    assert sent["messages"][1]["content"] == said[1:]
    assert used.losses == ["messages.1.content.0", "thinking"]


# Through the common vocabulary


def body_of(call: Call, request: ChatRequest | CountTokensRequest) -> dict[str, Any]:
    outgoing = plugin.translate_request(call, request)
    assert outgoing.body is None
    body: dict[str, Any] = outgoing.json
    return body


def test_a_chat_is_written_with_the_upstreams_model(call: MakeCall, chat: MakeChat) -> None:
    assert body_of(call(), chat(temperature=0.5, stream=True)) == {
        "model": "claude-sonnet-4-5",
        "max_tokens": 16384,
        "messages": [{"role": "user", "content": "Hi"}],
        "temperature": 0.5,
        "stream": True,
    }


def test_the_default_limit_comes_from_conf(call: MakeCall, chat: MakeChat) -> None:
    assert body_of(call(default_max_tokens=7), chat())["max_tokens"] == 7
    assert body_of(call(facts={"output_token_limit": 64000}), chat())["max_tokens"] == 64000


def test_the_models_name_says_how_it_thinks_and_conf_may_say_otherwise(call: MakeCall, chat: MakeChat) -> None:
    asked = chat(reasoning=Reasoning(effort="low"), temperature=0.5)
    old = body_of(call(), asked)
    assert old["thinking"] == {"type": "enabled", "budget_tokens": 2048}
    new = body_of(call(upstream_model="claude-opus-4-8"), asked)
    assert (new["thinking"], new["output_config"]) == (
        {"type": "adaptive", "display": "summarized"},
        {"effort": "low"},
    )
    told = call(upstream_model="claude-opus-4-8", thinking="budget", sampling="all", system_turns=False)
    assert body_of(told, chat(temperature=0.5))["temperature"] == 0.5
    assert body_of(told, asked)["thinking"]["type"] == "enabled"
    assert "temperature" not in body_of(call(upstream_model="claude-opus-4-8"), chat(temperature=0.5))


def test_a_request_for_a_count_has_what_is_counted_alone(call: MakeCall, chat: MakeChat) -> None:
    asked = chat(tools=(Tool(name="f"),), stream=True, max_tokens=5, stop=("x",), temperature=0.5)
    outgoing = plugin.translate_request(call(), CountTokensRequest(model="sonnet", chat=asked))
    assert outgoing.url == "https://upstream.test/v1/messages/count_tokens"
    assert set(outgoing.json) == {"model", "messages", "tools"}


# Both


@pytest.fixture(params=["verbatim", "chat", "count"])
def either(request: pytest.FixtureRequest, chat: MakeChat) -> Any:
    made: Any = {"verbatim": verbatim(), "chat": chat(), "count": CountTokensRequest(model="sonnet", chat=chat())}
    return made[request.param]


def test_the_key_is_a_header_and_never_in_the_address(call: MakeCall, either: Any) -> None:
    outgoing = plugin.translate_request(call(api_key="top-secret-key"), either)
    assert outgoing.headers == {
        "content-type": "application/json",
        "anthropic-version": "2023-06-01",
        "x-api-key": "top-secret-key",
    }
    assert "top-secret-key" not in outgoing.url
    assert "top-secret-key" not in repr(outgoing)


def test_gateways_may_want_the_key_as_a_bearers(call: MakeCall, either: Any) -> None:
    headers = plugin.translate_request(call(auth="bearer"), either).headers
    assert headers["authorization"] == "Bearer upstream-key"
    assert "x-api-key" not in headers


def test_without_a_key_there_is_no_header_for_it(call: MakeCall, either: Any) -> None:
    assert set(plugin.translate_request(call(api_key=""), either).headers) == {"content-type", "anthropic-version"}


def test_the_entrys_headers_are_added_and_replace_ours(call: MakeCall, either: Any) -> None:
    used = call(headers={"X-Team": "a", "Anthropic-Version": "2025-01-01"})
    headers = plugin.translate_request(used, either).headers
    assert (headers["x-team"], headers["anthropic-version"]) == ("a", "2025-01-01")


@pytest.mark.parametrize(
    "request_",
    [ModelsRequest(), verbatim(wire_format="other"), verbatim(operation="embeddings")],
    ids=["models", "another format", "another operation"],
)
def test_anything_else_is_refused(call: MakeCall, request_: Any) -> None:
    with pytest.raises(UnsupportedOperation) as caught:
        plugin.translate_request(call(), request_)
    assert caught.value.param == "model"
