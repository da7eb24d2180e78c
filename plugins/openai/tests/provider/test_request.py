"""What goes up, on both lanes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import orjson
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import tornado_gate_openai.provider as plugin
from tornado_gate.errors import InvalidField, UnsupportedOperation
from tornado_gate.types import Call, ChatRequest, ModelsRequest, VerbatimRequest, replace

MakeCall = Callable[..., Call]
MakeChat = Callable[..., ChatRequest]


def verbatim(raw: bytes, **rest: Any) -> VerbatimRequest:
    facts: dict[str, Any] = {"wire_format": "openai-chat", "operation": "chat", "path": "/v1/chat/completions"}
    return VerbatimRequest(raw=raw, **({"body": orjson.loads(raw)} | facts | rest))


RAW = b'{ "model" : "gpt",\n "messages":[{"role":"user","content":"caf\\u00e9"}], "temperature": 1.0, "x-own": 1e2 }'


# The verbatim lane


def test_only_the_model_is_changed_and_no_other_byte(call: MakeCall) -> None:
    outgoing = plugin.translate_request(call(), verbatim(RAW))
    assert outgoing.body == RAW.replace(b'"gpt"', b'"gpt-4o"')
    assert outgoing.json is None
    assert outgoing.url == "https://upstream.test/v1/chat/completions"
    assert outgoing.method == "POST"


def test_a_body_that_needs_no_change_is_the_same_object(call: MakeCall) -> None:
    raw = RAW.replace(b'"gpt"', b'"gpt-4\\u006f"')
    assert plugin.translate_request(call(), verbatim(raw)).body is raw


def test_thinking_of_other_models_does_not_reach_those_of_the_vendor(call: MakeCall) -> None:
    said = {"role": "assistant", "content": "Hi", "reasoning_content": "Hm"}
    raw = orjson.dumps({"model": "gpt-4o", "messages": [{"role": "user", "content": "Hi"}, said]})
    used = call(preset="openai", base_url="")
    sent = orjson.loads(plugin.translate_request(used, verbatim(raw)).body or b"")
    assert sent["messages"][1] == {"role": "assistant", "content": "Hi"}
    assert used.losses == ["messages.1.reasoning_content"]
    assert plugin.translate_request(call(), verbatim(raw)).body is raw


def test_a_body_without_a_model_gets_one(call: MakeCall) -> None:
    outgoing = plugin.translate_request(call(), verbatim(b'{"messages":[]}'))
    assert outgoing.body == b'{"messages":[],"model":"gpt-4o"}'


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    before=st.dictionaries(st.text(max_size=5), JSON, max_size=4),
    after=st.dictionaries(st.text(max_size=5), JSON, max_size=4),
    gap=st.sampled_from([b"", b" ", b"\n\t"]),
)
def test_whatever_stands_around_the_model_passes_byte_for_byte(
    call: MakeCall, before: dict[str, Any], after: dict[str, Any], gap: bytes
) -> None:
    before.pop("model", None)
    members = [*before.items(), ("model", "gpt")]
    members += [(name, value) for name, value in after.items() if name != "model" and name not in before]
    pieces = [gap + orjson.dumps(name) + gap + b":" + gap + orjson.dumps(value) + gap for name, value in members]
    raw = b"{" + b",".join(pieces) + b"}" + gap
    pieces[len(before)] = gap + b'"model"' + gap + b":" + gap + b'"gpt-4o"' + gap
    assert plugin.translate_request(call(), verbatim(raw)).body == b"{" + b",".join(pieces) + b"}" + gap


def test_a_renamed_field_moves_and_the_rest_stays(call: MakeCall) -> None:
    raw = b'{"model":"gpt-4o", "seed": 7,"messages":[ ]}'
    outgoing = plugin.translate_request(call(rename={"seed": "random_seed"}), verbatim(raw))
    assert outgoing.body == b'{"model":"gpt-4o", "messages":[ ],"random_seed":7}'


def test_a_dropped_field_is_reported(call: MakeCall) -> None:
    used = call(drop=["logprobs", "logit_bias", "n"])
    raw = b'{"model":"gpt-4o","logprobs":true,"messages":[],"logit_bias":null}'
    outgoing = plugin.translate_request(used, verbatim(raw))
    assert outgoing.body == b'{"model":"gpt-4o","messages":[]}'
    assert used.losses == ["logprobs"]  # null says nothing, and n was not there


def test_a_strict_caller_hears_of_the_first_dropped_field(call: MakeCall) -> None:
    with pytest.raises(InvalidField) as caught:
        plugin.translate_request(call(drop=["n"], strict=True), verbatim(b'{"model":"gpt","n":2}'))
    assert caught.value.param == "n"


def test_a_renamed_field_does_not_overwrite_one_that_was_given(call: MakeCall) -> None:
    rename = {"max_completion_tokens": "max_tokens"}
    both = call(rename=rename)
    raw = b'{"model":"gpt-4o","max_completion_tokens":5,"max_tokens":9}'
    assert plugin.translate_request(both, verbatim(raw)).body == b'{"model":"gpt-4o","max_tokens":9}'
    assert both.losses == ["max_completion_tokens"]
    same = call(rename=rename)
    raw = b'{"model":"gpt-4o","max_completion_tokens":9,"max_tokens":9}'
    assert plugin.translate_request(same, verbatim(raw)).body == b'{"model":"gpt-4o","max_tokens":9}'
    assert same.losses == []
    null = call(rename=rename)
    raw = b'{"model":"gpt-4o","max_completion_tokens":9,"max_tokens":null}'
    assert plugin.translate_request(null, verbatim(raw)).body == b'{"model":"gpt-4o","max_tokens":9}'


def test_roles_are_changed_only_where_a_message_has_one(call: MakeCall) -> None:
    used = call(roles={"developer": "system"})
    without = b'{"model":"gpt-4o","messages":[ {"role":"user","content":"x"} ]}'
    assert plugin.translate_request(used, verbatim(without)).body == without
    raw = b'{"model":"gpt-4o","messages":[ {"role":"developer","content":"x"},{"role":"user","content":"y"} ],"n":1}'
    body = plugin.translate_request(used, verbatim(raw)).body
    assert body == (
        b'{"model":"gpt-4o","messages":[{"role":"system","content":"x"},{"role":"user","content":"y"}],"n":1}'
    )
    assert used.losses == []


def test_roles_are_left_alone_in_messages_that_nobody_checked(call: MakeCall) -> None:
    used = call(roles={"developer": "system"})
    facts = {"wire_format": "openai-embeddings", "operation": "embeddings"}
    for messages in ("Hi", {"a": 1}, [1, None, {"role": []}]):
        raw = orjson.dumps({"model": "gpt-4o", "input": "Hi", "messages": messages})
        assert plugin.translate_request(used, verbatim(raw, **facts)).body == raw


def test_stream_options_are_taken_out_where_they_are_refused(call: MakeCall) -> None:
    raw = b'{"model":"gpt-4o","stream":true,"stream_options":{"include_usage":true},"messages":[]}'
    outgoing = plugin.translate_request(call(usage_in_stream=False), verbatim(raw, stream=True))
    assert outgoing.body == b'{"model":"gpt-4o","stream":true,"messages":[]}'
    assert plugin.translate_request(call(), verbatim(raw, stream=True)).body == raw


def test_stream_options_that_the_format_added_are_taken_out_too(call: MakeCall) -> None:
    raw = b'{"model":"gpt-4o","stream":true,"stream_options":{"include_usage":true}}'
    request = verbatim(raw, body={"model": "gpt-4o", "stream": True})
    assert plugin.translate_request(call(usage_in_stream=False), request).body == b'{"model":"gpt-4o","stream":true}'


# Through the common vocabulary


def body_of(call: Call, request: ChatRequest) -> dict[str, Any]:
    outgoing = plugin.translate_request(call, request)
    assert outgoing.body is None
    body: dict[str, Any] = outgoing.json
    return body


def test_a_chat_is_written_with_the_upstreams_model(call: MakeCall, chat: MakeChat) -> None:
    assert body_of(call(), chat(temperature=0.5)) == {
        "model": "gpt-4o",
        "messages": [{"role": "user", "content": "Hi"}],
        "temperature": 0.5,
    }


def test_a_stream_asks_for_usage_unless_the_upstream_refuses(call: MakeCall, chat: MakeChat) -> None:
    assert body_of(call(), chat(stream=True))["stream_options"] == {"include_usage": True}
    refusing = body_of(call(usage_in_stream=False), chat(stream=True))
    assert refusing["stream"] is True
    assert "stream_options" not in refusing


def test_facts_hold_on_this_lane_too(call: MakeCall, chat: MakeChat) -> None:
    used = call(
        rename={"max_completion_tokens": "max_tokens", "seed": "random_seed"},
        roles={"developer": "system"},
        drop=["logit_bias"],
    )
    body = body_of(used, chat(role="developer", max_tokens=5, seed=7, logit_bias={"1": 2.0}))
    assert body == {
        "model": "gpt-4o",
        "messages": [{"role": "system", "content": "Hi"}],
        "max_tokens": 5,
        "random_seed": 7,
    }
    assert used.losses == ["logit_bias"]


def test_a_loss_is_named_as_the_caller_named_it(call: MakeCall, chat: MakeChat) -> None:
    used = call(drop=["max_completion_tokens"])
    body_of(used, chat(max_tokens=5, names={"max_tokens": "generationConfig.maxOutputTokens"}))
    assert used.losses == ["generationConfig.maxOutputTokens"]


# Both


@pytest.fixture(params=["verbatim", "chat"])
def either(request: pytest.FixtureRequest, chat: MakeChat) -> VerbatimRequest | ChatRequest:
    return verbatim(RAW) if request.param == "verbatim" else chat()


def test_the_key_is_a_header_and_never_in_the_address(call: MakeCall, either: VerbatimRequest | ChatRequest) -> None:
    outgoing = plugin.translate_request(call(api_key="top-secret-key"), either)
    assert outgoing.headers["authorization"] == "Bearer top-secret-key"
    assert "top-secret-key" not in outgoing.url
    assert "top-secret-key" not in repr(outgoing)


def test_without_a_key_there_is_no_authorization(call: MakeCall, either: VerbatimRequest | ChatRequest) -> None:
    assert plugin.translate_request(call(api_key=""), either).headers == {"content-type": "application/json"}


def test_the_entrys_headers_are_added_and_replace_ours(call: MakeCall, either: VerbatimRequest | ChatRequest) -> None:
    used = call(organization="org-1", headers={"X-Team": "a", "AUTHORIZATION": "Basic b"})
    assert plugin.translate_request(used, either).headers == {
        "content-type": "application/json",
        "openai-organization": "org-1",
        "authorization": "Basic b",
        "x-team": "a",
    }


def test_the_headers_are_made_once_and_nobody_can_change_them(call: MakeCall) -> None:
    used = call(headers={"X-Team": "a"})
    first = plugin.translate_request(used, verbatim(RAW)).headers
    assert plugin.translate_request(used, verbatim(RAW)).headers is first
    with pytest.raises(TypeError):
        first["x-team"] = "b"
    assert first["x-team"] == "a"


def test_another_key_or_other_headers_of_the_same_entry_are_not_mixed_up(call: MakeCall) -> None:
    used = call(api_key="one", headers={"x-team": "a"})

    def sent(**changes: Any) -> Any:
        changed = used.replace(target=replace(used.target, **changes))
        headers = plugin.translate_request(changed, verbatim(RAW)).headers
        return headers["authorization"], headers.get("x-team")

    for _ in range(2):
        assert sent() == ("Bearer one", "a")
        assert sent(api_key="two") == ("Bearer two", "a")
        assert sent(headers={}) == ("Bearer one", None)
        assert sent(headers={"x-team": "b"}) == ("Bearer one", "b")


def test_the_facts_of_an_entry_never_show_the_key(call: MakeCall) -> None:
    used = call(api_key="top-secret-key")
    plugin.translate_request(used, verbatim(RAW))
    assert "top-secret-key" not in repr(used.target.settings)


def test_a_preset_without_a_version_in_its_path_is_asked_at_its_own_path(call: MakeCall, chat: MakeChat) -> None:
    used = call(base_url="", preset="gemini")
    url = "https://generativelanguage.googleapis.com/v1beta/openai/chat/completions"
    assert plugin.translate_request(used, chat()).url == url


@pytest.mark.parametrize(
    "request_",
    [ModelsRequest(), verbatim(RAW, wire_format="other"), verbatim(RAW, operation="embeddings")],
    ids=["models", "another format", "another operation"],
)
def test_what_nobody_serves_is_refused(call: MakeCall, request_: Any) -> None:
    with pytest.raises(UnsupportedOperation) as caught:
        plugin.translate_request(call(), request_)
    assert caught.value.param == "model"
