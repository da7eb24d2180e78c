"""Values: structs of msgspec with a text of their own."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

import pytest

from tornado_gate import types
from tornado_gate.types import ModelsRequest, Target, Usage
from tornado_gate.types.value import State, Value, field, replace

if TYPE_CHECKING:
    from nowhere import Missing  # type: ignore[import-not-found]  # as what is imported for types alone


class Key(Value, frozen=True, kw_only=True):
    name: str
    secret: str = ""
    tags: list[str] = field(default_factory=list)
    about: "Missing | None" = None

    hidden_fields = frozenset({"secret"})


class OwnedKey(Key, frozen=True, kw_only=True):
    owner: str


class Count(State):
    times: int = 0


def test_the_text_of_a_value_names_its_members_but_not_those_that_are_secret():
    shown = repr(Key(name="a", secret="sk-1"))

    assert shown == "Key(name='a', tags=[], about=None)"
    assert "sk-1" not in f"{Target(provider='p', plugin='p', model='m', upstream_model='m', api_key='sk-1')}"


def test_a_value_cannot_be_changed_and_a_state_can():
    count = Count()
    count.times += 1

    assert count == Count(times=1)
    with pytest.raises(AttributeError):
        Key(name="a").name = "b"  # type: ignore[misc]


def test_equal_values_are_one_key_of_a_dict():
    class Place(Value, frozen=True):
        row: int
        column: int

    assert {Place(1, 2): "here"}[Place(1, 2)] == "here"


def test_a_copy_with_other_values_keeps_the_rest_and_the_original():
    key = OwnedKey(name="a", secret="s", owner="me")

    other = replace(key, name="b")

    assert other == OwnedKey(name="b", secret="s", owner="me")
    assert key.name == "a"


def test_plugins_copy_a_value_with_the_replace_of_types():
    assert types.replace(Usage(), input_tokens=3) == Usage(input_tokens=3)


def test_each_value_gets_a_mapping_of_its_own():
    class Holder(Value, frozen=True):
        held: Mapping[str, int] = field(default_factory=dict)

    assert Holder().held is not Holder().held


def test_a_copy_with_a_member_that_does_not_exist_is_refused():
    with pytest.raises(TypeError):
        replace(Usage(), nonsense=1)


def test_the_text_of_a_request_does_not_have_what_its_format_needs_to_know() -> None:
    request = ModelsRequest(model="m", reply_state={"body": "what the caller wrote"})

    assert repr(request) == "ModelsRequest(model='m')"
