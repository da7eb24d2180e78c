"""What a key may be given: every fault is an AccountError that names the field, for whatever is sent."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tornado_gate.accounts import key_checks
from tornado_gate.accounts.errors import AccountError
from tornado_gate.accounts.key_checks import CHECKS, check_fields, check_operations
from tornado_gate.accounts.texts import make_storable

FAULTS: list[tuple[str, Any, str]] = [
    ("name", "", "1 to 100 characters"),
    ("name", "  ", "1 to 100 characters"),
    ("name", "x" * 101, "1 to 100 characters"),
    ("name", None, "1 to 100 characters"),
    ("name", 5, "1 to 100 characters"),
    ("name", "a\x00b", "control characters"),
    ("name", "a\nb", "control characters"),
    ("name", "a\ud800", "control characters"),
    ("name", "safe\u202eexe", "invisible characters"),
    ("name", "a\u200db", "invisible characters"),
    ("name", "\u200d👩", "invisible characters"),
    ("name", "👩\u200d", "invisible characters"),
    ("name", "👩\u200d\u200d👧", "invisible characters"),
    ("name", "👩\u200dx", "invisible characters"),
    ("name", "👩\u200d👧\u202e", "invisible characters"),
    ("models", "gpt-*", "must be a list of texts"),
    ("models", [5], "must be a list of texts"),
    ("models", {"a": 1}, ""),
    ("models", [""], "has an empty entry"),
    ("models", ["a b"], "must not contain spaces"),
    ("models", ["x" * 201], "has 201 characters"),
    ("models", [f"m{number}" for number in range(101)], "has 101 entries"),
    ("operations", ["Chat"], "not the name of an operation"),
    ("operations", ["x" * 51], "not the name of an operation"),
    ("addresses", ["nowhere"], "must be an address or a network"),
    ("addresses", ["10.1.2.3/8"], "write 10.0.0.0/8"),
    ("tags", ["a\u2028b"], "must not contain spaces"),
    ("limits", {"requests_per_hour": 5}, "no member 'requests_per_hour'"),
    ("limits", [5], "must have the members"),
    ("limits", {"requests_per_minute": 0}, "1 or more"),
    ("limits", {"requests_per_minute": True}, "must be an integer"),
    ("limits", {"requests_per_minute": 1.5}, "must be an integer"),
    ("limits", {"requests_per_minute": 2**63}, "fit into 64 bits"),
    ("budget", {"usd_per_day": -1}, "from 0 to"),
    ("budget", {"usd_per_day": float("nan")}, "from 0 to"),
    ("budget", {"usd_per_day": float("inf")}, "from 0 to"),
    ("budget", {"usd_per_day": 10**400}, "from 0 to"),
    ("budget", {"usd_per_day": "5"}, "from 0 to"),
    ("budget", {"tokens_per_day": 0}, "1 or more"),
    ("budget", {"tokens_per_day": 1.0}, "must be an integer"),
    ("expires", 5, "in the future"),
    ("expires", "tomorrow", "a time in seconds"),
    ("expires", True, "a time in seconds"),
    ("expires", float("nan"), "a time in seconds"),
    ("expires", 1e300, "before the year 10000"),
    ("expires", 10**400, "before the year 10000"),
    ("role", "root", "must be member or administrator"),
    ("role", ["member"], "must be member or administrator"),
]


@pytest.mark.parametrize(("field", "value", "words"), FAULTS)
def test_a_fault_names_its_field(field: str, value: Any, words: str) -> None:
    if not words:
        assert check_fields({field: value}) == {field: ("a",)}
        return
    with pytest.raises(AccountError, match=words) as caught:
        check_fields({field: value})
    assert caught.value.field in {field, *(value if isinstance(value, dict) else ())}
    assert caught.value.message.isprintable()
    assert len(caught.value.message) < 400


@pytest.mark.parametrize("emoji", ["👨\u200d👩\u200d👧", "👩🏽\u200d🚀", "🏳\ufe0f\u200d🌈", "🙂\u200d↔\ufe0f"])
def test_a_name_may_have_an_emoji_of_several_symbols(emoji: str) -> None:
    name = f"key of {emoji} {emoji}"
    assert check_fields({"name": name}) == {"name": name}


def test_values_get_their_stored_form() -> None:
    checked = check_fields(
        {
            "name": " Ünïcode 名前 👍 ",
            "models": ["b", "a", "b"],
            "addresses": ["::ffff:192.0.2.7", "2001:DB8::/32"],
            "limits": {"concurrent_requests": 1, "tokens_per_minute": None},
            "budget": {"usd_per_day": 0, "tokens_per_day": None},
            "expires": None,
            "tags": None,
        }
    )
    assert checked == {
        "name": "Ünïcode 名前 👍",
        "models": ("b", "a"),
        "addresses": ("192.0.2.7", "2001:db8::/32"),
        "limits": {"concurrent_requests": 1},
        "budget": {"usd_per_day": 0.0},
        "expires": None,
        "tags": (),
    }
    json.dumps(checked)


def test_operations_must_be_known_where_it_is_known_which_there_are() -> None:
    assert check_operations(["chat"], {"chat", "images"}) == ("chat",)
    with pytest.raises(AccountError, match="'chta' is unknown"):
        check_operations(["chta"], {"chat", "images"})


ANYTHING = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=300), st.binary(max_size=5)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.dictionaries(
            st.one_of(st.text(max_size=20), st.sampled_from([*key_checks.LIMITS, *key_checks.BUDGETS])),
            inner,
            max_size=4,
        ),
    ),
    max_leaves=6,
)


@pytest.mark.qa
@given(st.sampled_from(sorted(CHECKS)), ANYTHING)
def test_any_value_is_stored_as_json_or_an_account_error(field: str, value: Any) -> None:
    try:
        checked = check_fields({field: value})[field]
    except AccountError as error:
        assert error.message.isprintable()
        return
    text = json.dumps(checked, allow_nan=False, ensure_ascii=False)
    assert make_storable(text) == text
    assert check_fields({field: checked}) == {field: checked}, "what is stored can be stored again"
    if field == "expires" and checked is not None:
        assert checked > time.time() - 60
