"""The one table: what an upstream did, and which error the caller gets for it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import orjson
import pytest

from tornado_gate import errors
from tornado_gate.http.upstream_errors import (
    ErrorText,
    connection_lost,
    error_for_status,
    file_error,
    key_refused,
    not_connected_in_time,
    parse_error_body,
    unreachable,
)

SAID = ErrorText(message="the upstream's words", param="n", code="odd")

STATUSES = [
    # (status, in an answer, class, status shown, code, are the upstream's words shown, may another target be tried)
    (400, False, errors.UpstreamRefused, 400, "odd", True, False),
    (404, False, errors.UpstreamRefused, 404, "odd", True, False),
    (402, False, errors.UpstreamKeyRefused, 502, "upstream_authentication", False, True),
    (422, True, errors.UpstreamRefused, 422, "odd", True, False),
    (401, False, errors.UpstreamKeyRefused, 502, "upstream_authentication", False, True),
    (403, True, errors.UpstreamKeyRefused, 502, "upstream_authentication", False, True),
    (429, False, errors.UpstreamRateLimited, 429, "upstream_rate_limited", True, True),
    (408, False, errors.UpstreamTimeout, 504, "upstream_timeout", False, True),
    (504, False, errors.UpstreamTimeout, 504, "upstream_timeout", False, True),
    (504, True, errors.UpstreamTimeout, 504, "upstream_timeout", True, True),
    (503, False, errors.UpstreamOverloaded, 503, "upstream_overloaded", False, True),
    (529, False, errors.UpstreamOverloaded, 503, "upstream_overloaded", False, True),
    (529, True, errors.UpstreamOverloaded, 503, "upstream_overloaded", True, True),
    (500, False, errors.UpstreamError, 502, "upstream_error", False, True),
    (500, True, errors.UpstreamError, 502, "upstream_error", True, True),
    (302, False, errors.UpstreamError, 502, "upstream_error", False, True),
    (101, False, errors.UpstreamError, 502, "upstream_error", False, True),
    (0, True, errors.UpstreamError, 502, "upstream_error", True, True),
]


@pytest.mark.parametrize(("status", "in_answer", "kind", "shown", "code", "words", "retryable"), STATUSES)
def test_a_status_has_one_error(
    status: int, in_answer: bool, kind: type[errors.UpstreamError], shown: int, code: str, words: bool, retryable: bool
) -> None:
    error = error_for_status(status, "acme", SAID, in_answer=in_answer)
    assert (type(error), error.status, error.code, error.retryable) == (kind, shown, code, retryable)
    assert (SAID.message in error.message) == words
    assert words or "'acme'" in error.message


@pytest.mark.parametrize("status", [400, 429, 500, 503, 504])
def test_an_upstream_that_says_nothing_is_still_said_to_have_failed(status: int) -> None:
    assert error_for_status(status, "acme").message.startswith("The provider 'acme' ")
    assert error_for_status(status).message.startswith("The upstream ")


def test_without_a_code_of_its_own_a_refusal_has_ours() -> None:
    assert error_for_status(400).code == "upstream_refused"


@pytest.mark.parametrize(("status", "seconds"), [(429, 9.0), (503, 9.0), (500, None), (400, None)])
def test_retry_after_comes_along_where_waiting_helps(status: int, seconds: float | None) -> None:
    error = error_for_status(status, headers={"retry-after": "9"})
    assert error.retry_after == seconds
    assert error.headers == ({"Retry-After": "9"} if seconds else {})


@pytest.mark.parametrize(
    ("sent", "passed_on"),
    [
        *(("0", "0"), ("1.5", "2"), ("86400", "86400"), ("1000000000000", "86400"), ("9" * 400, "86400")),
        *(("-5", None), ("soon", None), ("", None), ("²", None), ("1e3", None), ("nan", None)),
        ("Wed, 21 Oct 9999 07:28:00 GMT", "86400"),
    ],
)
def test_an_absurd_retry_after_is_not_passed_on(sent: str, passed_on: str | None) -> None:
    """Clients wait as they are told: no caller may be sent away for years."""
    error = error_for_status(503, headers={"retry-after": sent})
    assert error.headers.get("Retry-After") == passed_on
    assert error.retry_after == (None if passed_on is None else float(passed_on))


def test_a_date_in_retry_after_is_passed_on_and_read() -> None:
    moment = format_datetime(datetime.now(UTC) + timedelta(seconds=90), usegmt=True)
    error = error_for_status(429, headers={"retry-after": moment})
    assert error.headers == {"Retry-After": moment}
    assert 80 < (error.retry_after or 0) <= 90
    assert error_for_status(429, headers={"retry-after": "Wed, 21 Oct 2020 07:28:00 GMT"}).retry_after == 0


@pytest.mark.parametrize(
    "body",
    [
        {"error": {"code": 400, "message": "sk-1", "details": [{"reason": "API_KEY_INVALID"}]}},
        [{"error": {"code": 400, "message": "sk-1", "details": [{}, "x", {"reason": "API_KEY_INVALID"}]}}],
        {"error": {"code": "invalid_api_key", "message": "sk-1"}},
        {"code": "invalid_api_key", "message": "sk-1"},
        {"type": "error", "error": {"type": "billing_error", "message": "sk-1"}},
    ],
)
def test_a_code_that_names_our_key_is_our_fault_whatever_the_status(body: Any) -> None:
    error = error_for_status(400, "acme", parse_error_body(orjson.dumps(body)))
    assert (type(error), error.status) == (errors.UpstreamKeyRefused, 502)
    assert "sk-1" not in error.message
    assert "api_key" not in error.message
    assert "Check the provider's api_key" in error.operator_message


QUOTA = {
    "message": "You exceeded your current quota, please check your plan and billing details.",
    "type": "insufficient_quota",
    "param": None,
}
LIMIT = {"message": "Rate limit reached for gpt-5 in organization o.", "type": "tokens", "code": "rate_limit_exceeded"}
LOW = {"type": "invalid_request_error", "message": "Your credit balance is too low to access the API. Go to Billing."}
CAPPED = {
    "type": "invalid_request_error",
    "message": "You have reached your specified API usage limits. Wait until May.",
}


@pytest.mark.parametrize(
    ("status", "said"), [(429, QUOTA | {"code": "insufficient_quota"}), (429, QUOTA), (400, LOW), (400, CAPPED)]
)
@pytest.mark.parametrize("in_answer", [True, False])
def test_an_account_without_credit_is_the_operators_and_no_rate_limit(status: int, said: Any, in_answer: bool) -> None:
    text = parse_error_body(orjson.dumps({"error": said}))
    error = error_for_status(status, "acme", text, {"retry-after": "9"}, in_answer=in_answer)
    assert (type(error), error.status, error.retryable) == (errors.UpstreamKeyRefused, 502, True)
    assert (error.code, error.headers) == ("upstream_authentication", {})
    assert said["message"][:20] not in error.message


def test_a_rate_limit_is_none_of_the_account() -> None:
    error = error_for_status(429, "acme", parse_error_body(orjson.dumps({"error": LIMIT})), {"retry-after": "9"})
    assert (type(error), error.retry_after) == (errors.UpstreamRateLimited, 9.0)


def test_a_message_that_repeats_the_callers_text_is_no_fault_of_the_account() -> None:
    said = {"message": f"Invalid prompt: {LOW['message']}", "type": "invalid_request_error"}
    assert error_for_status(400, "acme", parse_error_body(orjson.dumps({"error": said}))).status == 400


def test_a_callers_text_that_speaks_of_keys_is_no_code() -> None:
    body = {"error": {"code": "bad_prompt", "message": 'The prompt has "invalid_api_key" in it.'}}
    assert error_for_status(400, "acme", parse_error_body(orjson.dumps(body))).code == "bad_prompt"


@pytest.mark.parametrize(
    ("error", "kind", "status", "code"),
    [
        (unreachable("acme"), errors.UpstreamUnreachable, 502, "upstream_unreachable"),
        (not_connected_in_time("acme"), errors.UpstreamConnectTimeout, 504, "upstream_timeout"),
        (connection_lost("acme", answered=True), errors.UpstreamLost, 502, "upstream_lost"),
        (connection_lost("acme", answered=False), errors.UpstreamLost, 502, "upstream_lost"),
        (key_refused("acme"), errors.UpstreamKeyRefused, 502, "upstream_authentication"),
    ],
)
def test_a_connection_that_fails_has_one_error(
    error: errors.UpstreamError, kind: type[errors.UpstreamError], status: int, code: str
) -> None:
    assert (type(error), error.status, error.code, error.retryable) == (kind, status, code, True)
    assert "'acme'" in error.message


@pytest.mark.parametrize(
    ("code", "status", "shown"),
    [
        ("unreachable_url", 403, "upstream_file_gone"),
        ("unreachable_url", 404, "upstream_file_gone"),
        ("unreachable_url", 500, "upstream_file_unreachable"),
        ("private_address", 0, "upstream_file_refused"),
        ("invalid_url", 0, "upstream_file_refused"),
        ("too_large", 0, "upstream_file_too_large"),
        ("wrong_media_type", 0, "upstream_wrong_media_type"),
        ("unknown", 0, "upstream_file_unreachable"),
    ],
)
def test_a_file_that_cannot_be_had_is_the_upstreams_fault(code: str, status: int, shown: str) -> None:
    error = file_error(code, "Why.", status=status)
    assert (error.status, error.code, error.retryable) == (502, shown, True)


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (b'[{"error": {"message": "m", "code": 400}}]', ("m", "", "")),
        (b'{"message": "m", "code": "1201"}', ("m", "", "1201")),
        (b'{"error": "m", "code": "c"}', ("m", "", "c")),
        (b'{"error": {"message": "m", "param": "p", "code": "c"}}', ("m", "p", "c")),
        (b'{"error": "m"}', ("m", "", "")),
        (b'{"message": "m"}', ("m", "", "")),
        (b'{"detail": "m"}', ("m", "", "")),
        (b'{"error": null}', ("", "", "")),
        (b'{"error": {"message": null, "details": {}}}', ("", "", "")),
        (b"[]", ("", "", "")),
        (b"nonsense", ("", "", "")),
    ],
)
def test_the_words_of_an_error_are_found_in_every_vendors_shape(body: bytes, text: tuple[str, str, str]) -> None:
    assert parse_error_body(body)[:3] == text


def test_a_long_message_is_cut() -> None:
    body = orjson.dumps({"error": {"message": "x" * 9000}})
    assert len(error_for_status(400, "acme", parse_error_body(body)).message) == 2000
