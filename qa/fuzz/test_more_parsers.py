"""Readers of what comes from outside that have no property test beside their own tests: any input is read or refused.

docs/contributing/testing.md lists the property tests of all parsers.
"""

from __future__ import annotations

import asyncio
import base64
import json
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any, cast

import orjson
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from qa.fuzz.mutations import JSON, VALUES, mutate
from tests.ledger.rows import make_stored_row
from tests.tasks.test_record import FULL
from tornado_gate import sse
from tornado_gate.accounts import oidc
from tornado_gate.accounts.errors import AccountError
from tornado_gate.config.model import OidcConfig, Secret
from tornado_gate.errors import GateError, InvalidField, UpstreamError
from tornado_gate.http.upstream_errors import error_for_status, parse_error_body
from tornado_gate.http.websocket.frames import FrameReader, ProtocolError, parse_close_payload
from tornado_gate.ledger.entries import MAX_TAGS, TAG_BYTES, collect_tags, decode_header, find_end_user
from tornado_gate.ledger.spool import read_segment
from tornado_gate.ledger.writing import COLUMNS
from tornado_gate.server.handlers.common import get_request_id
from tornado_gate.server.handlers.files import RangeNotSatisfiable, parse_range
from tornado_gate.storage.file_ids import FileIds
from tornado_gate.streams.json_array import ArraySplitter
from tornado_gate.streams.sse import FrameSplitter
from tornado_gate.tasks.record import RecordDamaged, decode_record, encode_record
from tornado_gate.tasks.service import MAX_KEY_LENGTH, get_idempotency_key
from tornado_gate.testing import chunks_of
from tornado_gate.types.media_type import media_type

pytestmark = pytest.mark.representative
"""These parsers of the core have no other property tests."""

HEADER = st.text(st.characters(max_codepoint=255), max_size=60)
"""What a header can hold: bytes as Latin-1."""
CUTS = st.lists(st.integers(1, 7), min_size=1, max_size=6)


def cut(data: bytes, sizes: list[int]) -> list[bytes]:
    pieces, at, number = [], 0, 0
    while at < len(data):
        pieces.append(data[at : at + sizes[number % len(sizes)]])
        at, number = at + sizes[number % len(sizes)], number + 1
    return pieces


# Headers


@given(st.one_of(HEADER, st.from_regex(r"bytes=[0-9]{0,5}-[0-9]{0,5}", fullmatch=True)), st.integers(0, 2000))
@example("bytes=" + "9" * 100 + "-", 10)
@example("bytes=0-" + "9" * 5000, 10)
@example("bytes=-0", 0)
def test_any_range_is_a_part_of_the_file_or_all_of_it(header: str, size: int) -> None:
    try:
        found = parse_range(header, size)
    except RangeNotSatisfiable:
        return
    assert found is None or 0 <= found[0] < found[1] <= size


@given(HEADER)
def test_any_request_id_is_kept_or_replaced_by_a_plain_one(header: str) -> None:
    found = get_request_id({"x-request-id": header})
    assert found.isascii()
    assert found.isprintable()
    assert 0 < len(found) <= 128


@given(st.text(max_size=400))
@example("a" * (MAX_KEY_LENGTH + 1))
@example("\ud800")
def test_any_idempotency_key_is_taken_or_refused(header: str) -> None:
    call = cast(Any, SimpleNamespace(headers={"idempotency-key": header}))
    try:
        assert get_idempotency_key(call) == header
    except InvalidField as error:
        assert error.param == "Idempotency-Key"


@given(st.lists(HEADER, max_size=4), st.lists(st.text(max_size=30), max_size=30))
@example(["é" * 200], [])
def test_any_tags_are_short_few_and_can_be_stored(headers: list[str], of_key: list[str]) -> None:
    tags = collect_tags(of_key, headers)
    assert len(tags) <= MAX_TAGS
    assert len(set(tags)) == len(tags)
    assert all(0 < len(tag.encode()) <= TAG_BYTES and tag.strip() == tag for tag in tags)
    orjson.dumps(tags)


@given(HEADER)
def test_a_header_is_text_in_utf8_or_latin1(header: str) -> None:
    assert decode_header(header).encode("utf-8") == header.encode("latin-1") or decode_header(header) == header


@given(st.dictionaries(st.sampled_from(["user", "safety_identifier", "metadata"]), VALUES))
@example({"metadata": {"user_id": 5}})
def test_any_body_names_an_end_user_or_none(body: dict[str, Any]) -> None:
    assert isinstance(find_end_user(body), str)


@given(HEADER)
def test_any_content_type_has_a_media_type(header: str) -> None:
    found = media_type(header)
    assert found == found.strip().lower()
    assert ";" not in found


# Streams

LINES_OF_EVENTS = (b"data:", b"\n", b"\r", b"\r\n", b"\n\n", b"{}", b"\xff", b":", b"event: x")


@given(st.binary(max_size=200) | st.lists(st.sampled_from(LINES_OF_EVENTS), max_size=20).map(b"".join), CUTS)
@example(b"data: \xff\n\n", [3])
@example(b"\xef\xbb\xbfdata: 1\n\n", [1])
def test_any_bytes_are_events_however_they_are_cut(data: bytes, sizes: list[int]) -> None:
    async def read(pieces: list[bytes]) -> list[sse.Frame]:
        return [frame async for frame in sse.read_frames(chunks_of(pieces))]

    assert asyncio.run(read(cut(data, sizes))) == asyncio.run(read([data]))


@given(st.binary(max_size=200), CUTS)
def test_a_splitter_loses_no_byte(data: bytes, sizes: list[int]) -> None:
    splitter = FrameSplitter()
    taken = b"".join(splitter.take(piece) or b"" for piece in cut(data, sizes))
    assert data == taken + splitter.flush()


@given(
    st.binary(max_size=100) | st.lists(JSON.map(json.dumps)).map(lambda texts: f"[{','.join(texts)}]".encode()), CUTS
)
@example(b'[{"a": "\\', [1])
@example(b"[{]}", [2])
@example(b"[{},,{}]]]", [2])
def test_any_bytes_are_objects_of_an_array_or_an_upstream_error(data: bytes, sizes: list[int]) -> None:
    splitter = ArraySplitter()
    try:
        found = [element for piece in cut(data, sizes) for element in splitter.feed(piece)]
    except UpstreamError:
        return
    assert all(element.startswith(b"{") for element in found)


@given(st.binary(max_size=200), CUTS, st.booleans())
@example(b"\x88\x01\x00", [1], False)
def test_any_bytes_are_messages_or_break_the_protocol(data: bytes, sizes: list[int], masked: bool) -> None:
    reader = FrameReader(masked=masked, most=1000)
    try:
        for piece in cut(data, sizes):
            reader.feed(piece)
            while (message := reader.read_message()) is not None:
                if message[0] == 8 and isinstance(message[1], bytes):
                    parse_close_payload(message[1])
    except ProtocolError as error:
        assert 1000 <= error.code < 5000
    assert reader.buffered <= len(data)


@given(st.integers(100, 999), st.binary(max_size=100) | JSON.map(lambda value: json.dumps({"error": value}).encode()))
@example(400, b'{"error": {"message": 5, "code": [], "param": {}, "type": null}}')
@example(429, b'{"error": {"message": "\\ud800"}}')
def test_any_body_of_any_status_is_an_error(status: int, body: bytes) -> None:
    error = error_for_status(status, "p", parse_error_body(body))
    assert isinstance(error, GateError)
    orjson.dumps(error.body())


# Files


@given(st.binary(max_size=200), st.integers(0, 400), st.booleans())
def test_a_damaged_task_record_is_refused(data: bytes, at: int, alone: bool) -> None:
    whole = encode_record(FULL)
    assert decode_record(whole) == decode_record(whole)
    damaged = data if alone else whole[:at] + data + whole[at + len(data) :]
    if damaged == whole:
        return
    with pytest.raises(RecordDamaged):
        decode_record(damaged)


LINES = st.lists(st.one_of(st.binary(max_size=30), JSON.map(lambda value: json.dumps(value).encode())), max_size=6)


@given(LINES, st.booleans())
@example([b"[1, 2]", b"\xff"], True)
@example([b"5", b"[1]"], False)
@example([b'[["x"]]', b"[1]"], False)
def test_damaged_lines_of_a_segment_are_skipped_and_no_other(lines: list[bytes], has_head: bool) -> None:
    row = make_stored_row(1_700_000_000.0, id="0" * 24)
    head = [orjson.dumps(COLUMNS), orjson.dumps(row)] if has_head else []
    with TemporaryDirectory() as folder:
        path = Path(folder) / "1-1.rows"
        path.write_bytes(b"\n".join([*head, *lines, *([orjson.dumps(row)] if has_head else [])]) + b"\n")
        found = list(read_segment(path))
    assert all(len(one) == len(COLUMNS) for one in found)
    if has_head:
        assert found[0] == found[-1] == row
        assert len(found) >= 2


@given(st.from_regex(r"[0-9a-f]{32}\.[a-z0-9]{1,5}", fullmatch=True), st.from_regex(r"[0-9a-f]{8}", fullmatch=True))
def test_any_file_id_has_an_owner_whom_only_its_secret_shows(file_id: str, owner: str) -> None:
    assert len(FileIds(b"secret").read_owner(file_id)) == 8
    assert FileIds(b"secret").read_owner(FileIds(b"secret").make(owner, "png")) == owner


# Sign-in by OIDC

METADATA = oidc.Metadata(
    issuer="https://login.example.org", authorization_endpoint="https://login.example.org/a",
    token_endpoint="https://login.example.org/t", jwks_uri="https://login.example.org/k",
)  # fmt: skip
DOCUMENT = {
    "issuer": METADATA.issuer, "authorization_endpoint": METADATA.authorization_endpoint,
    "token_endpoint": METADATA.token_endpoint, "jwks_uri": METADATA.jwks_uri,
}  # fmt: skip
CONFIG = OidcConfig(issuer=METADATA.issuer, client_id="gate", client_secret=Secret("secret-0123456789"))
KEYS = {"keys": [{"kty": "RSA", "kid": "1", "n": "AQAB", "e": "AQAB", "use": "sig", "alg": "RS256"}]}


def encode_part(value: bytes) -> str:
    return base64.urlsafe_b64encode(value).rstrip(b"=").decode()


PARTS = st.one_of(st.binary(max_size=30), JSON.map(lambda value: json.dumps(value).encode()))
HEADERS = mutate({"alg": "RS256", "kid": "1", "typ": "JWT"}).map(lambda value: json.dumps(value).encode())
TOKENS = st.tuples(PARTS | HEADERS, PARTS, st.binary(max_size=8)).map(lambda parts: ".".join(map(encode_part, parts)))


@given(st.one_of(TOKENS, st.text(max_size=40), JSON), st.one_of(mutate(KEYS), st.just(KEYS), JSON))
@example(encode_part(b"[" * 5000) + ".e30.e30", KEYS)
@example(encode_part(b'{"alg": "none"}') + ".e30.", KEYS)
def test_any_token_of_any_key_set_is_refused(token: Any, keys: Any) -> None:
    with pytest.raises(oidc.OidcError):
        oidc.verify_id_token(token, keys, METADATA, "gate", "nonce")


@given(mutate(DOCUMENT) | JSON)
def test_any_provider_document_is_metadata_or_refused(document: Any) -> None:
    try:
        found = oidc.parse_metadata(document, METADATA.issuer)
    except oidc.OidcError:
        return
    assert found.issuer == METADATA.issuer
    assert found.token_endpoint.startswith("https://")


@given(st.dictionaries(st.sampled_from(["code", "state", "error", "iss", "error_description"]), st.text(max_size=20)))
def test_any_response_to_another_attempt_is_refused(parameters: dict[str, str]) -> None:
    for attempt in (None, oidc.start_attempt()):
        with pytest.raises(AccountError):
            oidc.check_response(attempt, METADATA, parameters)


@given(mutate({"sub": "u1", "email": "a@b.c", "email_verified": True, "name": "A", "groups": ["eng"]}), JSON)
def test_any_claims_are_an_identity(claims: Any, more: Any) -> None:
    checked = {**claims, "sub": "u1"} if isinstance(claims, dict) else {"sub": "u1"}
    found = oidc.make_identity(checked, CONFIG)
    assert all(isinstance(text, str) for text in (found.email, found.name, *found.groups))
    try:
        assert oidc.merge_claims(checked, more)["sub"] == "u1"
    except oidc.OidcError:
        assert not isinstance(more, dict) or more.get("sub") != "u1"
