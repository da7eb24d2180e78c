"""Which realtime dialect a caller speaks; what an answer took; errors and ids."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given

from plugins.openai.tests.wire.realtime import golden, strategies
from plugins.openai.tests.wire.realtime.golden import CLIENT, Event, client, server
from tornado_gate.errors import InvalidField, UpstreamOverloaded
from tornado_gate.types import RealtimeDialect
from tornado_gate_openai.wire.realtime import (
    detect_dialect,
    detect_session_update_dialect,
    make_error_event,
    make_id,
    parse_usage,
)


@pytest.mark.parametrize(
    ("headers", "query", "protocols", "dialect"),
    [
        ({}, {}, [], "beta"),
        ({"user-agent": "Mozilla/5.0"}, {"model": "m"}, ["realtime", "openai-insecure-api-key.k"], "beta"),
        ({"x-stainless-lang": "python"}, {}, [], "current"),
        ({"user-agent": "OpenAI/Python 3.52.0"}, {}, [], "current"),
        ({"user-agent": "AsyncOpenAI/JS 6.0.0"}, {}, [], "current"),
        ({"user-agent": "Agents/Python 0.9.0"}, {}, [], "current"),
        ({"user-agent": "MyAgents/1"}, {}, [], "beta"),
        ({}, {}, ["realtime", "openai-insecure-api-key.k", "openai-agents-sdk.0.4.1"], "current"),
        ({"x-stainless-lang": "js", "openai-beta": "realtime=v1"}, {}, [], "beta"),
        ({"x-stainless-lang": "js", "openai-beta": "assistants=v2, realtime=v1"}, {}, [], "beta"),
        ({"x-stainless-lang": "js", "openai-beta": "assistants=v2"}, {}, [], "current"),
        ({"x-stainless-lang": "js"}, {}, ["realtime", " openai-beta.realtime-v1"], "beta"),
        ({"x-stainless-lang": "python"}, {"api-version": "2025-04-01-preview"}, [], "beta"),
        ({"x-stainless-lang": "python"}, {"api-version": "v1"}, [], "current"),
    ],
)
def test_the_handshake_says_which_dialect_a_caller_speaks(
    headers: dict[str, str], query: dict[str, str], protocols: list[str], dialect: str
) -> None:
    assert detect_dialect(headers, query, protocols) == dialect


@pytest.mark.parametrize(
    ("session", "dialect"),
    [
        ({"type": "realtime"}, "current"),
        ({"audio": {}}, "current"),
        ({"output_modalities": ["text"], "voice": "echo"}, "current"),
        ({"modalities": ["text"]}, "beta"),
        ({"input_audio_format": "pcm16"}, "beta"),
        ({"turn_detection": None}, "beta"),
        ({"instructions": "Be kind."}, None),
        ({}, None),
        (None, None),
        ([], None),
    ],
)
def test_the_first_update_says_it_too(session: Any, dialect: str | None) -> None:
    assert detect_session_update_dialect(client("session.update", session=session)) == dialect


def test_every_pair_of_updates_is_told_apart() -> None:
    for pair in CLIENT:
        if "session" in pair.beta:
            assert detect_session_update_dialect(pair.beta) == "beta"
            assert detect_session_update_dialect(pair.current[0]) == "current"
        else:
            assert detect_session_update_dialect(pair.beta) is None


def test_usage_is_read_from_a_response_that_is_done() -> None:
    inside = {"cached_tokens": 4, "image_tokens": 3, "audio_tokens": 2, "text_tokens": 5}
    value = {"total_tokens": 30, "input_tokens": 10, "output_tokens": 20, "input_token_details": inside}
    value["output_token_details"] = {"audio_tokens": 15, "text_tokens": 5}
    usage = parse_usage(server("response.done", response={"usage": {**value, "x": 1}}))
    assert usage is not None
    assert (usage.input_tokens, usage.output_tokens, usage.total_tokens) == (10, 20, 30)
    assert (usage.cache_read_tokens, usage.image_tokens) == (4, 3)
    assert usage.extra["input_token_details"] == {"audio_tokens": 2, "text_tokens": 5}
    assert usage.extra["output_token_details"] == {"audio_tokens": 15, "text_tokens": 5}
    assert usage.extra["x"] == 1


def test_usage_is_the_same_in_both_dialects() -> None:
    beta, current = (server("response.done", response=one) for one in (golden.RESPONSE_BETA, golden.RESPONSE_CURRENT))
    assert parse_usage(beta) == parse_usage(current) is not None


@pytest.mark.parametrize("usage", [None, [], {}, {"input_tokens": "5"}, {"input_tokens": True}, {"output_tokens": -1}])
def test_usage_that_counts_nothing_is_none(usage: Any) -> None:
    assert parse_usage(server("response.done", response={"usage": usage})) is None


def test_other_events_have_no_usage() -> None:
    assert parse_usage(server("response.created", response=golden.RESPONSE_BETA)) is None


@given(strategies.ANY_EVENT | strategies.mended())
def test_nothing_breaks_the_reading_of_usage(event: Event) -> None:
    usage = parse_usage(event)
    assert usage is None or usage.total_tokens is not None
    assert detect_session_update_dialect(event) in ("beta", "current", None)


@pytest.mark.parametrize("dialect", ["beta", "current"])
def test_an_error_has_the_four_strings_and_names_the_event_that_it_is_about(dialect: RealtimeDialect) -> None:
    event = make_error_event(InvalidField("session.voice", "No such voice."), "mine_1", dialect)
    assert event["type"] == "error"
    assert event["event_id"].startswith("event_")
    assert event["error"] == {
        "type": "invalid_request_error",
        "code": "invalid_value",
        "message": "No such voice.",
        "param": "session.voice",
        "event_id": "mine_1",
    }
    adapter = golden.CURRENT_SERVER if dialect == "current" else golden.BETA_SERVER
    adapter.validate_python(event)


@pytest.mark.parametrize("event_id", [None, ""])
def test_an_error_about_no_event_names_none(event_id: str | None) -> None:
    event = make_error_event(UpstreamOverloaded("Busy."), event_id, "beta")
    assert event["error"]["event_id"] is None
    assert event["error"]["param"] == ""


def test_ids_look_like_the_vendors_and_differ() -> None:
    ids = {make_id("event") for _ in range(500)}
    assert len(ids) == 500
    assert all(len(one) == 27 and one.startswith("event_") and one[6:].isalnum() and one.isascii() for one in ids)
