"""Error objects of upstreams as errors of ours."""

from __future__ import annotations

from typing import Any

import pytest

from tornado_gate.errors import (
    GateError,
    UpstreamError,
    UpstreamOverloaded,
    UpstreamRateLimited,
    UpstreamRefused,
    UpstreamTimeout,
)
from tornado_gate_openai.wire.chat import find_error, parse_error


@pytest.mark.parametrize(
    ("error", "kind", "status"),
    [
        ({"message": "m", "type": "server_error"}, UpstreamError, 502),
        ({"message": "m", "type": "invalid_request_error", "code": "context_length_exceeded"}, UpstreamRefused, 400),
        ({"message": "m", "code": 422}, UpstreamRefused, 422),
        ({"message": "m", "code": "413"}, UpstreamRefused, 413),
        ({"message": "m", "code": "rate_limit_exceeded"}, UpstreamRateLimited, 429),
        ({"message": "m", "status": 429}, UpstreamRateLimited, 429),
        ({"message": "m", "code": 529}, UpstreamOverloaded, 503),
        ({"message": "m", "type": "overloaded_error"}, UpstreamOverloaded, 503),
        ({"message": "m", "code": 504}, UpstreamTimeout, 504),
        ({"message": "m", "code": 408}, UpstreamTimeout, 504),
        ({"message": "m", "code": 500}, UpstreamError, 502),
        ("m", UpstreamError, 502),
    ],
)
def test_each_error_has_its_class_and_status(error: Any, kind: type[GateError], status: int) -> None:
    found = parse_error(error)
    assert type(found) is kind
    assert (found.status, found.message) == (status, "m")


@pytest.mark.parametrize(
    "error",
    [
        {"message": "bad key sk-123", "code": 401},
        {"message": "bad key sk-123", "code": "invalid_api_key"},
        {"message": "bad key sk-123", "type": "authentication_error"},
        {"message": "bad key sk-123", "code": "403"},
        {"message": "sk-123 has no credit", "code": "insufficient_quota", "type": "insufficient_quota"},
        {"message": "sk-123 has no credit", "code": 402},
    ],
)
def test_the_gateways_own_key_is_no_callers_business(error: Any) -> None:
    found = parse_error(error)
    assert found.status == 502
    assert "sk-" not in found.message


@pytest.mark.parametrize("error", [5, [], {}, {"message": ""}, {"message": None}, True])
def test_an_error_without_words_gets_some(error: Any) -> None:
    assert parse_error(error).message == "The upstream sent an error without a message."


def test_a_message_that_is_no_text_is_shown_as_json() -> None:
    assert parse_error({"message": {"a": 1}}).message == '{"a":1}'


def test_a_refusal_keeps_its_code_in_a_stream_as_by_http() -> None:
    error = {"message": "m", "type": "invalid_request_error", "code": "context_length_exceeded", "param": "messages"}
    assert (parse_error(error).code, parse_error(error).param) == ("context_length_exceeded", "messages")
    assert parse_error({"message": "m", "code": "422"}).code == "upstream_refused"


def test_a_long_message_is_cut() -> None:
    assert len(parse_error({"message": "x" * 10**6}).message) == 2000


def test_an_old_style_error_body_is_seen() -> None:
    found = find_error({"object": "error", "message": "m", "code": 400})
    assert isinstance(found, UpstreamRefused)


@pytest.mark.parametrize("body", [None, [], {"error": None}, {"error": {}}, {"object": "chat.completion"}])
def test_what_is_no_error_is_none(body: Any) -> None:
    assert find_error(body) is None
