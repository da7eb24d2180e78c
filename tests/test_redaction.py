"""Secrets of a target in what its upstream sends: what is masked, and what is left alone."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator
from itertools import pairwise

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tornado_gate.errors import GateError, UpstreamRateLimited, UpstreamRefused
from tornado_gate.streams.stages import LARGE_BYTES
from tornado_gate.telemetry.fetched_secrets import MOST_KEYS, MOST_SECRETS, FetchedSecrets
from tornado_gate.telemetry.redaction import (
    LONG_PIECE_BYTES,
    MASKED_CHARACTERS,
    Scrubber,
    make_mask,
    mask_secret,
    redact_answer,
    redact_error,
)
from tornado_gate.telemetry.spellings import list_spellings
from tornado_gate.types import BufferedBody, Target, UpstreamResponse, replace

KEY = "sk-proj-0123456789abcdef"
PAIR = "gateway:0123456789abcdef0123"
PAIR_IN_BASE64 = base64.b64encode(PAIR.encode()).decode()
JSON = {"content-type": "application/json"}
WORDS = ["none", "EMPTY", "ollama", "not-needed", "sk-123", "x"]


def target_with(key: str = KEY, **headers: str) -> Target:
    return Target(provider="p", plugin="p", model="m", upstream_model="m", api_key=key, headers=headers)


def whole(raw: bytes, target: Target | None = None, content_type: str = "application/json") -> bytes:
    """What is left of a body that came whole."""
    incoming = UpstreamResponse(chunks=BufferedBody(raw), headers={"content-type": content_type})
    chunks = redact_answer(target or target_with(), incoming).chunks
    assert isinstance(chunks, BufferedBody)
    return chunks.data


def in_pieces(
    pieces: list[bytes], target: Target | None = None, content_type: str = "text/event-stream"
) -> list[bytes]:
    """What is left of a body that came in pieces."""

    async def chunks() -> AsyncIterator[bytes]:
        for piece in pieces:
            yield piece

    async def read() -> list[bytes]:
        incoming = UpstreamResponse(chunks=chunks(), headers={"content-type": content_type})
        return [chunk async for chunk in redact_answer(target or target_with(), incoming).chunks]

    return asyncio.run(read())


def cut(raw: bytes, cuts: list[int]) -> list[bytes]:
    borders = [0, *sorted(min(place, len(raw)) for place in cuts), len(raw)]
    return [raw[start:end] for start, end in pairwise(borders)]


def test_a_large_piece_with_escapes_is_masked_in_parts() -> None:
    padding = rb"\u00e9" * (LARGE_BYTES // 6)
    escaped = KEY.encode().replace(b"-", rb"\u002d")
    raw = b'{"a":"' + padding + b" " + escaped + b" " + padding + b" " + KEY.encode() + b'"}'
    found = in_pieces([raw[:10], raw[10:]], content_type="application/json")
    assert json.loads(b"".join(found)) == json.loads(raw.replace(escaped, b"***").replace(KEY.encode(), b"***"))


KEYS = st.text("ab-1", min_size=MASKED_CHARACTERS, max_size=MASKED_CHARACTERS + 4)
NEAR = st.text('ab-1. "\\n', max_size=40)


@given(KEYS, st.text(max_size=200), st.lists(st.integers(0, 200), max_size=8))
def test_a_text_without_the_secret_is_never_changed(key: str, text: str, cuts: list[int]) -> None:
    assume(key not in text)
    raw = text.encode()

    assert whole(raw, target_with(key)) is raw
    assert b"".join(in_pieces(cut(raw, cuts), target_with(key))) == raw
    assert redact_error(target_with(key), GateError(text)).message == text


@given(KEYS, st.lists(NEAR, min_size=1, max_size=4), st.lists(st.integers(0, 240), max_size=10))
def test_pieces_are_masked_as_the_whole_is(key: str, around: list[str], cuts: list[int]) -> None:
    raw = key.join(around).encode()

    assert b"".join(in_pieces(cut(raw, cuts), target_with(key))) == whole(raw, target_with(key))


@given(KEYS, KEYS, st.lists(NEAR, min_size=2, max_size=4), st.lists(st.integers(0, 240), max_size=10))
def test_pieces_with_several_secrets_are_masked_as_the_whole_is(
    key: str, other: str, around: list[str], cuts: list[int]
) -> None:
    target = target_with(key, authorization=f"Bearer {other}")
    raw = (key.join(around) + other + around[0]).encode()

    assert b"".join(in_pieces(cut(raw, cuts), target)) == whole(raw, target)


@pytest.mark.parametrize(
    "text",
    [
        '{{"message":"{}"}}',
        "Your key is {}.",
        "{}",
        "({}), {}; '{}'",
        "Bearer {}\\n",
        '"line\\n{}"',
        '"dash \\u2014{}"',
        "x=%20{}&y",
        "{}. And so on",
        "wait...{}...",
    ],
)
def test_a_secret_that_is_a_whole_word_is_masked(text: str) -> None:
    raw = text.replace("{}", KEY).encode()

    assert whole(raw) == text.replace("{}", "***").encode()
    assert b"".join(in_pieces([raw[at : at + 1] for at in range(len(raw))])) == whole(raw)


@pytest.mark.parametrize("text", ["a{}", "{}a", "-{}", "{}_", "{}.a", "a.{}", "AAAA{}AAAA"])
def test_a_secret_inside_a_longer_word_of_an_answer_is_left_alone(text: str) -> None:
    raw = text.replace("{}", KEY).encode()

    assert whole(raw) is raw
    assert b"".join(in_pieces([raw[at : at + 1] for at in range(len(raw))])) == raw


@pytest.mark.parametrize("key", WORDS)
def test_a_short_key_changes_no_answer_and_no_header(key: str) -> None:
    incoming = UpstreamResponse(
        chunks=BufferedBody(f'{{"text": "{key} or key {key}"}}'.encode()), headers={"x": key, **JSON}
    )

    assert redact_answer(target_with(key), incoming) is incoming


@pytest.mark.parametrize("key", ["none", "EMPTY", "ollama"])
@pytest.mark.parametrize(
    "text", ["There is {} left.", "The model '{}' is unknown.", "Incorrect API key: {}", "Bearer {}"]
)
def test_a_word_as_key_changes_no_error(key: str, text: str) -> None:
    message = text.replace("{}", key)

    assert redact_error(target_with(key), GateError(message)).message == message


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("Incorrect API key provided: sk-123.", "Incorrect API key provided: ***."),
        ("bad Bearer sk-123!", "bad Bearer ***!"),
        ('x-api-key: "sk-123" is unknown', 'x-api-key: "***" is unknown'),
        ("The task sk-123 is gone", "The task sk-123 is gone"),
        ("The key sk-1234 is another", "The key sk-1234 is another"),
        ("The key sk-123.b is another", "The key sk-123.b is another"),
    ],
)
def test_a_short_key_is_masked_in_an_error_that_calls_it_a_key(text: str, shown: str) -> None:
    assert redact_error(target_with("sk-123"), GateError(text)).message == shown


def test_an_error_is_masked_in_all_that_a_caller_gets_of_it() -> None:
    error = UpstreamRefused(f"bad x{KEY}x", param=f"p.{KEY}", code=KEY, headers={"Retry-After": KEY})

    assert redact_error(target_with(), error) is error
    assert error.body() == {"message": "bad x***x", "type": error.type, "param": "p.***", "code": "***"}
    assert (str(error), error.headers) == ("bad x***x", {"Retry-After": "***"})


def test_an_error_without_a_secret_keeps_its_code() -> None:
    error = redact_error(target_with(), UpstreamRateLimited("slow"))

    assert (error.code, error.message) == ("upstream_rate_limited", "slow")


def test_headers_are_masked_wherever_the_secret_stands() -> None:
    incoming = UpstreamResponse(
        chunks=BufferedBody(b"{}"), headers={"x-echo": f"a{KEY}b", **JSON}, status=201, context="c"
    )

    redacted = redact_answer(target_with(), incoming)

    assert redacted.headers == {"x-echo": "a***b", **JSON}
    assert (redacted.chunks, redacted.status, redacted.context) == (incoming.chunks, 201, "c")


@pytest.mark.parametrize(
    ("header", "value", "secret"),
    [
        ("Authorization", f"Bearer {KEY}", KEY),
        ("x-portkey-token", KEY, KEY),
        ("Cookie", f"session={KEY}; theme=dark", KEY),
        ("x-note", KEY, KEY),
        ("x-tenant", "a1b2c3d4e5f60718293a4b5c", "a1b2c3d4e5f60718293a4b5c"),
        ("x-title", "a-title-of-many-characters", ""),
        ("anthropic-beta", "context-1m-2025-08-07", ""),
    ],
)
def test_the_values_of_confs_headers_that_look_like_secrets_are_masked(header: str, value: str, secret: str) -> None:
    target = target_with("", **{header: value})
    raw = f'"{value}"'.encode()

    assert whole(raw, target) == (raw.replace(secret.encode(), b"***") if secret else raw)


def test_both_halves_of_a_key_are_secrets() -> None:
    first, second = "access-0123456789", "secret-0123456789"

    assert whole(f"{first} {second} {first}:{second}".encode(), target_with(f"{first}:{second}")) == b"*** *** ***"


@pytest.mark.parametrize("key", ['quo"te/slash-0123', "umlaut-\u00e9\u00fc-0123456"])
def test_a_secret_is_found_as_json_and_addresses_spell_it(key: str) -> None:
    spelled = [*list_spellings(key)]

    assert len(set(spelled)) > 2
    for text in spelled:
        assert whole(f"<{text}>".encode(), target_with(key)) == b"<***>"


@pytest.mark.parametrize("spelled", [f"{PAIR}", PAIR_IN_BASE64, PAIR_IN_BASE64.rstrip("="), PAIR.partition(":")[2]])
def test_a_header_for_basic_authentication_is_masked_in_every_spelling(spelled: str) -> None:
    target = target_with("", authorization=f"Basic {PAIR_IN_BASE64}")

    assert redact_error(target, GateError(f"not: {spelled}")).message.rstrip("=") == "not: ***"
    assert whole(f'"{spelled}"'.encode(), target).replace(b"=", b"") == b'"***"'


@pytest.mark.parametrize("spelled", [KEY, base64.b64encode(KEY.encode()).decode().rstrip("=")])
def test_a_key_in_base64_is_masked(spelled: str) -> None:
    assert whole(f'"{spelled}"'.encode()) == b'"***"'


def escape(text: str, code: str = "\\u{:04x}") -> str:
    return "".join(code.format(ord(sign)) for sign in text)


ESCAPED = [
    escape(KEY[:1]) + KEY[1:],
    KEY[:-1] + escape(KEY[-1:]),
    KEY[:7] + escape(KEY[7:9], "\\u{:04X}") + KEY[9:],
    escape(KEY),
]


@pytest.mark.parametrize("spelled", ESCAPED)
def test_a_key_whose_characters_are_escaped_is_masked_in_a_body_and_in_pieces(spelled: str) -> None:
    raw = f'{{"text": "It is {spelled}. Yes."}}'.encode()

    assert json.loads(whole(raw)) == {"text": "It is ***. Yes."}
    assert json.loads(make_mask(target_with()).mask_text(raw.decode())) == {"text": "It is ***. Yes."}  # type: ignore[union-attr]
    for at in range(len(raw)):
        assert json.loads(b"".join(in_pieces([raw[:at], raw[at:]]))) == {"text": "It is ***. Yes."}
    assert json.loads(b"".join(in_pieces([raw[at : at + 1] for at in range(len(raw))]))) == {"text": "It is ***. Yes."}


@given(st.lists(st.sampled_from(["\\", "u0073", "u0071", "s", KEY[1:], " ", "é"]), max_size=12), st.integers(0, 60))
def test_undoing_escapes_never_changes_what_the_json_means(parts: list[str], at: int) -> None:
    raw = f'"{"".join(parts)}"'.encode()
    try:
        meant = json.loads(raw)
    except ValueError:
        return
    expected = meant if KEY not in meant else None
    for shown in (whole(raw), b"".join(in_pieces([raw[:at], raw[at:]]))):
        assert expected is None or json.loads(shown) == expected


@pytest.mark.parametrize("text", ['{"text": "\\u003c a \\u0073 b"}', '{"text": "\\\\u0073k"}'])
def test_escapes_are_left_alone_without_a_secret(text: str) -> None:
    raw = text.encode()

    assert whole(raw) is raw
    assert in_pieces([raw]) == [raw]


@pytest.mark.parametrize("inside", ["x_{}", "{}_x", "key-{}-of"])
@pytest.mark.parametrize(
    "frame",
    [
        '{"error": {"message": "{}", "code": "{}"}}',
        'event: error\ndata: {"message": "{}"}\n\n',
        'data: {"type": "error", "code": "{}"}\n\n',
        '{"response": {"error":{"code": "{}"}}}',
    ],
)
def test_a_secret_inside_a_longer_word_of_an_error_is_masked(frame: str, inside: str) -> None:
    raw = frame.replace("{}", inside.replace("{}", KEY)).encode()

    assert KEY.encode() not in whole(raw)
    assert in_pieces([raw]) == [whole(raw)]


@pytest.mark.parametrize("content_type", ["audio/mpeg", "image/png", "video/mp4"])
def test_binary_bodies_are_left_alone(content_type: str) -> None:
    raw = KEY.encode()

    assert whole(raw, content_type=content_type) is raw
    assert in_pieces([raw[:5], raw[5:]], content_type=content_type) == [raw[:5], raw[5:]]


def test_only_a_beginning_of_the_secret_waits_for_the_next_chunk() -> None:
    head, tail = KEY[:9].encode(), KEY[9:].encode()

    assert in_pieces([b"data: a\n\n", b"data: " + head, tail + b"\n\n"]) == [b"data: a\n\n", b"data: ", b"***\n\n"]
    assert in_pieces([b"x " + head, b"other"]) == [b"x ", head + b"other"]
    assert in_pieces([b"x " + head]) == [b"x ", head]


def test_the_error_that_ends_a_stream_is_masked() -> None:
    async def chunks() -> AsyncIterator[bytes]:
        yield b"a " + KEY[:5].encode()
        raise UpstreamRefused(f"broke off {KEY}")

    async def read() -> list[bytes]:
        incoming = redact_answer(target_with(), UpstreamResponse(chunks=chunks(), headers=JSON))
        return [chunk async for chunk in incoming.chunks]

    with pytest.raises(UpstreamRefused) as caught:
        asyncio.run(read())
    assert caught.value.message == "broke off ***"


@pytest.mark.parametrize("key", [KEY, "0123456789012345", "aaaaaaaaaaaaaaaa", "\u00e9-\u00fc-0123456789abc"])
@pytest.mark.parametrize("filling", [b"0.123,-4e5,", b"iVBORw0KGgo/+ ", b"some words, sk- and more \xc3\xa9 "])
def test_a_long_piece_is_masked_whatever_else_is_in_it(key: str, filling: bytes) -> None:
    around = filling * LONG_PIECE_BYTES

    assert whole(around + b'"' + key.encode() + b'" ' + around, target_with(key)) == around + b'"***" ' + around
    assert whole(around, target_with(key)) is around


def test_a_target_without_secrets_costs_nothing() -> None:
    incoming = UpstreamResponse(chunks=BufferedBody(b"{}"))

    assert make_mask(target_with("")) is None
    assert redact_answer(target_with(""), incoming) is incoming


def test_a_message_of_a_realtime_session_is_masked() -> None:
    mask = make_mask(target_with())
    assert mask is not None
    text = '{"type": "x"}'

    assert mask.mask_text(f'{{"text": "it is {KEY}, \u00e9"}}') == '{"text": "it is ***, \u00e9"}'
    assert mask.mask_text(text) is text


# Secrets that a provider has fetched


def test_a_fetched_secret_is_masked_as_a_key_of_conf_and_in_logs() -> None:
    token, target, scrubber = "ya29.fetched-0123456789", replace(target_with(), provider="fetches"), Scrubber([KEY])
    assert scrubber.scrub_text(f"sent {token}") == f"sent {token}"
    mask_secret(target, token)
    assert scrubber.scrub_text(f"sent {token} and {KEY}") == "sent *** and ***"
    assert not scrubber.is_clean(f"sent {token}")
    scrubber.replace([])
    assert scrubber.scrub_text(f"sent {token}") == "sent ***", "a reload of conf forgets none"
    assert whole(json.dumps({"text": f"sent {token}"}).encode(), target) == b'{"text": "sent ***"}'
    error = redact_error(target, UpstreamRefused(f"bad {token} or {KEY}"))
    assert error.message == "bad *** or ***"
    other = replace(target, provider="other")
    assert redact_error(other, UpstreamRefused(f"bad {token}")).message == f"bad {token}", "its upstream never had it"


def test_old_secrets_leave() -> None:
    fetched, target = FetchedSecrets(), replace(target_with(), provider="renews", key="k")
    for number in range(3 * MOST_SECRETS):
        fetched.add(target, f"token-{number}")
        fetched.add(target, f"token-{number}")
    assert fetched.find_secrets(target) == tuple(
        f"token-{number}" for number in range(2 * MOST_SECRETS, 3 * MOST_SECRETS)
    )
    assert fetched.revision == 3 * MOST_SECRETS, "a known one changes nothing"
    for number in range(MOST_KEYS):
        fetched.add(replace(target, key=str(number)), f"token-of-{number}")
    assert fetched.find_secrets(target) == ()
    assert len(fetched.list()) == MOST_KEYS
