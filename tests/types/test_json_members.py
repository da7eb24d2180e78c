"""Members of an upstream's JSON, whatever it is."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tornado_gate.errors import UpstreamError
from tornado_gate.types.wire import find_member, require_member

BODY = {"choices": [{"text": "hi", "score": 1, "done": True, "n": None}], "usage": {}}
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["choices", "text"]), inner, max_size=2)
    ),
)


def test_only_values_of_the_class_are_found() -> None:
    first = ("choices", 0)
    assert find_member(BODY, *first, "text", kind=str) == "hi"
    assert find_member(BODY, "choices", -1, "score", kind=float) == 1
    assert find_member(BODY, *first, "done", kind=bool) is True
    assert find_member(BODY, "usage", kind=dict) == {}
    assert find_member(BODY, kind=dict) is BODY
    missing: tuple[tuple[tuple[str | int, ...], type], ...] = (
        ((*first, "text"), int),
        ((*first, "done"), int),
        ((*first, "n"), str),
        ((*first, "score"), bool),
        (("choices", 1), dict),
        (("choices", "text"), str),
        (("usage", 0), str),
        ((), list),
    )
    for path, kind in missing:
        assert find_member(BODY, *path, kind=kind) is None, path
        with pytest.raises(UpstreamError) as caught:
            require_member(BODY, *path, kind=kind, provider="acme")
        assert (caught.value.status, "The provider 'acme' sent" in caught.value.message) == (502, True)


@given(JSON)
def test_no_json_is_too_odd(value: Any) -> None:
    found = find_member(value, "choices", 0, "text", kind=str)
    assert found is None or isinstance(found, str)
