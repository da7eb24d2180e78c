"""Forms that a schema declares: the values in their texts, files, and texts that are sent once."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tornado_gate.codec import fields
from tornado_gate.errors import InvalidField
from tornado_gate.types.text_maps import MEDIA, WORD, Object, Text


class _FormSchema(fields.BodySchema):
    model = fields.FormText(filled=True, text=WORD)
    count = fields.Integer(least=1, most=5)
    share = fields.Number()
    flag = fields.Boolean()
    names = fields.Array(fields.String(choices=("a", "b")))
    picture = fields.File(needed=True)


class _OtherSchema(fields.BodySchema):
    texts = Object(kind="other", members={"reply": MEDIA})

    model = fields.String(text=WORD)
    prompt = fields.String(text=Text(kind="user"))


@pytest.mark.parametrize(
    ("texts", "values"),
    [
        ({"count": "3", "share": "0.5", "flag": "true"}, {"count": 3, "share": 0.5, "flag": True}),
        ({"count": "-3", "share": "2", "flag": "false"}, {"count": -3, "share": 2.0, "flag": False}),
        ({"count": "1_0", "share": "nan", "flag": "yes"}, {"count": "1_0", "share": "nan", "flag": "yes"}),
        ({"count": "1" * 19, "share": ".5"}, {"count": "1" * 19, "share": ".5"}),
        ({"count": ["1", "2"], "other": "3", "model": "7"}, {"count": ["1", "2"], "other": "3", "model": "7"}),
        ({"names": "a"}, {"names": ["a"]}),
        ({"names": ["a", "b"]}, {"names": ["a", "b"]}),
    ],
)
def test_a_text_becomes_the_value_of_its_field(texts: dict[str, Any], values: dict[str, Any]) -> None:
    assert fields.parse_form(_FormSchema, texts) == values


@pytest.mark.parametrize(
    ("texts", "param", "problem"),
    [
        ({"model": ""}, "model", "must not be empty"),
        ({"model": ["a", "b"]}, "model", "must be sent only once"),
        ({"picture": "x"}, "picture", "must be a file: its part of the form needs a filename"),
        ({"count": "x"}, "count", "must be an integer, not a string"),
        ({"count": "6"}, "count", "must be from 1 to 5, not 6"),
        ({"names": "c"}, "names.0", "must be one of 'a' or 'b', not 'c'"),
    ],
)
def test_a_field_that_does_not_fit_is_named(texts: dict[str, Any], param: str, problem: str) -> None:
    with pytest.raises(InvalidField, match=param) as caught:
        fields.check(fields.get_schema(_FormSchema), fields.parse_form(_FormSchema, texts))
    assert (caught.value.param, caught.value.message) == (param, f"'{param}' {problem}.")


@given(
    texts=st.dictionaries(
        st.sampled_from([*_FormSchema().fields, "other"]),
        st.text() | st.from_regex(r"-?[0-9]{1,20}(\.[0-9]{0,20})?") | st.lists(st.text()),
    )
)
def test_no_form_raises_anything_but_a_named_field(texts: dict[str, Any]) -> None:
    values = fields.parse_form(_FormSchema, texts)
    assert list(values) == list(texts)
    try:
        fields.check(fields.get_schema(_FormSchema), values)
    except InvalidField as error:
        assert error.param


def test_bodies_of_several_shapes_have_the_texts_of_each() -> None:
    shape = fields.make_body_shape(_FormSchema, _OtherSchema)
    assert isinstance(shape, Object)
    assert {name: type(member).__name__ for name, member in shape.members.items()} == {
        "model": "Word", "reply": "Media", "prompt": "Text",
    }  # fmt: skip


def test_two_shapes_of_one_member_are_refused() -> None:
    class Contradicting(fields.BodySchema):
        prompt = fields.String(text=WORD)

    with pytest.raises(ValueError, match="'prompt' of Contradicting has another shape"):
        fields.make_body_shape(_OtherSchema, Contradicting)
