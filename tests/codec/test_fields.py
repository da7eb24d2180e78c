"""What a body schema accepts at a glance is what marshmallow finds nothing wrong with."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from marshmallow import ValidationError, fields, validate, validates_schema
from msgspec import Struct

from tornado_gate.codec.fields import (
    Array,
    BodySchema,
    Boolean,
    FunctionField,
    Integer,
    Number,
    Object,
    OneOf,
    Reference,
    String,
    check,
    make_request_reference_reader,
)
from tornado_gate.errors import InvalidField
from tornado_gate.testing.calls import wire_request
from tornado_gate.types import Route


def refuse_seven(value: Any) -> None:
    if value == 7:
        raise InvalidField("checked", "'checked' must not be 7.")


class Inner(BodySchema):
    word = String(required=True)
    switch = Boolean(allow_none=True)


class Outer(BodySchema):
    name = String(required=True, validate=validate.Length(min=1, error="must not be empty"))
    kind = String(choices=("a", "b"), allow_none=True)
    count = Integer(least=1, most=5)
    share = Number(least=0, allow_none=True)
    inner = Object(Inner, allow_none=True)
    items = Array(String(), most=2)
    either = OneOf(by_type={str: String(), dict: Object(Inner)})
    checked = FunctionField(refuse_seven)
    checked_or_null = FunctionField(refuse_seven, allow_none=True)
    proven = FunctionField(refuse_seven, validate=validate.Equal("a"))
    text = String()
    text_or_null = String(allow_none=True)
    filled = String(filled=True)
    short = String(longest=0)
    agreed = Boolean(validate=validate.Equal(True))
    anything = Object()
    listed = fields.List(fields.Integer(strict=True))


VALUES = st.sampled_from(
    [None, True, 0, 1, 7, 1.5, "", "a", "5", [], ["a"], ["a", 1], [1], ["a"] * 3, {}, {"word": "w"}, {"word": 1}]
) | st.sampled_from([{"word": "w", "switch": None, "more": 1}, {"word": None}, 2**63, 2**70, 2.0, float("nan")])
BODIES = st.dictionaries(st.sampled_from([*Outer().fields, "unknown"]), VALUES, max_size=5) | st.fixed_dictionaries(
    {"name": st.just("n")}, optional={name: VALUES for name in (*Outer().fields, "unknown") if name != "name"}
)


def finds_nothing(schema: BodySchema, body: dict[str, Any]) -> bool:
    try:
        return not schema.validate(body)
    except InvalidField:
        return False


class _PlainItem(Struct, forbid_unknown_fields=True):
    word: str


class Plain(BodySchema):
    """All members have a type of msgspec."""

    name = String(required=True, filled=True)
    kind = String(choices=("a", "b"), allow_none=True)
    count = Integer(least=1, most=5)
    number = Integer(allow_none=True)
    share = Number(least=0)
    free = Number()
    switch = Boolean(allow_none=True)
    items = Array(Object(Inner), least=1, most=2, plain_item=_PlainItem)
    either = OneOf(by_type={str: String(), list: Array(String(), most=2)}, allow_none=True)


PLAIN_BODIES = st.fixed_dictionaries(
    {"name": st.sampled_from(["n", "", None, 1])},
    optional=dict.fromkeys(sorted({*Plain().fields, "unknown"} - {"name"}), VALUES),
)


@given(PLAIN_BODIES)
@example({"name": "n", "items": [{"word": "w", "switch": None}]})
@example({"name": "n", "items": [{"word": "w"}], "free": 2**63})
@example({"name": "n", "free": float("nan")})
@example({"name": "n", "number": 2**63 - 1, "free": -(2**63 - 1)})
def test_a_body_of_plain_members_is_accepted_exactly_when_nothing_is_wrong_with_it(body: dict[str, Any]) -> None:
    assert Plain().accepts(body) is finds_nothing(Plain(), body)


@given(BODIES)
def test_a_body_is_accepted_exactly_when_nothing_is_wrong_with_it(body: dict[str, Any]) -> None:
    assert Outer().accepts(body) is finds_nothing(Outer(), body)


@pytest.mark.parametrize(
    ("body", "path"),
    [
        ({}, "name"),
        ({"name": None}, "name"),
        ({"name": ""}, "name"),
        ({"name": "n", "filled": ""}, "filled"),
        ({"name": "n", "short": "x"}, "short"),
        ({"name": "n", "kind": "c"}, "kind"),
        ({"name": "n", "proven": "b"}, "proven"),
        ({"name": "n", "agreed": False}, "agreed"),
        ({"name": "n", "checked": None}, "checked"),
        ({"name": "n", "text": None}, "text"),
        ({"name": "n", "anything": []}, "anything"),
        ({"items": ["a", 1], "count": 9, "name": "n"}, "count"),
        ({"name": "n", "items": ["a", 1]}, "items.1"),
        ({"name": "n", "inner": {"switch": 1, "word": 1}}, "inner.word"),
        ({"name": 1, "checked": 7}, "checked"),
    ],
)
def test_the_first_fault_in_the_order_of_the_schema_is_told(body: dict[str, Any], path: str) -> None:
    with pytest.raises(InvalidField) as caught:
        check(Outer(), body)
    assert caught.value.param == path


class Hooked(BodySchema):
    name = String()

    @validates_schema
    def refuse_all(self, data: Any, **rest: Any) -> None:
        raise ValidationError("is refused", "name")


class Renamed(BodySchema):
    name = String(data_key="other")


@pytest.mark.parametrize(("schema", "body", "path"), [(Hooked(), {}, "name"), (Renamed(), {"other": 1}, "other")])
def test_a_schema_with_more_than_fields_is_still_obeyed(schema: BodySchema, body: dict[str, Any], path: str) -> None:
    with pytest.raises(InvalidField) as caught:
        check(schema, body)
    assert caught.value.param == path


class _FileSchema(BodySchema):
    file_id = String(required=True, refers=Reference(kind="file"))


class _HoldingSchema(BodySchema):
    model = String(required=True)
    parts = Array(Object(_FileSchema))
    thread = OneOf(by_type={str: String(refers=Reference(kind="thread")), dict: Object(_FileSchema)})


@pytest.mark.parametrize(
    ("raw", "ids"),
    [
        (b'{"model": "m"}', []),
        (b'{"model": "m", "parts": [{"file_id": "f"}]}', ["f"]),
        (b'{"model": "m", "parts": [{"\\u0066ile_id": "f"}]}', ["f"]),
        (b'{"model": "m", "thread": "t"}', ["t"]),
        (b'{"model": "m", "parts": [{"file_id": "f"}], "text": "' + 5000 * b"x" + b'"}', ["f"]),
        (b'{"model": "file_id"}', []),
    ],
)
def test_references_are_found_in_every_spelling_of_their_names(raw: bytes, ids: list[str]) -> None:
    route = Route("POST", "/v1/x", "chat")
    found = make_request_reference_reader(_HoldingSchema)(None, wire_request(route, raw))
    assert [reference.id for reference in found] == ids


def test_references_are_found_in_a_form_which_has_no_raw_body() -> None:
    wire = wire_request(Route("POST", "/v1/x", "chat", multipart="only"), {"thread": "t"}, form=True)
    assert [found.id for found in make_request_reference_reader(_HoldingSchema)(None, wire)] == ["t"]
