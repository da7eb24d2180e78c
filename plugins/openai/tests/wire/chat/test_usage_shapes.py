"""Usage of the vendor's own shape is read in few steps; that must never give another result than looking for it does."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tornado_gate.types import Meter, Usage
from tornado_gate_openai.wire.chat import note_body, parse_usage, render_usage
from tornado_gate_openai.wire.chat.meter import finish_of
from tornado_gate_openai.wire.chat.usage import parse_any_usage, parse_plain_usage

COUNTS: st.SearchStrategy[Any] = st.integers(0, 3) | st.sampled_from([None, -1, True, 1.0, 1.5, "1", [], {}])
DETAILS = (
    st.none()
    | st.dictionaries(
        st.sampled_from(["cached_tokens", "cache_write_tokens", "reasoning_tokens", "audio_tokens"]), COUNTS, max_size=3
    )
    | st.sampled_from([[], "x", 1])
)
REPORTS = st.fixed_dictionaries(
    {},
    optional={
        "prompt_tokens": COUNTS,
        "completion_tokens": COUNTS,
        "total_tokens": COUNTS,
        "input_tokens": COUNTS,
        "prompt_tokens_details": DETAILS,
        "completion_tokens_details": DETAILS,
        "prompt_cache_hit_tokens": COUNTS,
        "queue_time": COUNTS,
    },
)
ADDING_UP = st.builds(
    lambda given, made, rest: rest | {"prompt_tokens": given, "completion_tokens": made, "total_tokens": given + made},
    st.integers(-1, 3),
    st.integers(-1, 3),
    REPORTS,
)


@given(REPORTS | ADDING_UP)
def test_a_plain_report_is_read_as_any_other_is(value: dict[str, Any]) -> None:
    plain, searched = parse_plain_usage(value), parse_any_usage(value)
    assert parse_usage(value) == searched
    if plain is not None:
        assert searched is not None
        assert plain == searched
        assert orjson.dumps(render_usage(plain)) == orjson.dumps(render_usage(searched))


@pytest.mark.parametrize(
    ("details", "usage"),
    [
        ({}, Usage(input_tokens=5, output_tokens=2)),
        (
            {"prompt_tokens_details": None, "completion_tokens_details": None},
            Usage(input_tokens=5, output_tokens=2),
        ),
        (
            {"prompt_tokens_details": {"cached_tokens": 4, "cache_write_tokens": 0}},
            Usage(input_tokens=5, output_tokens=2, cache_read_tokens=4, cache_write_tokens=0),
        ),
        (
            {
                "prompt_tokens_details": {"cached_tokens": 0, "audio_tokens": 0},
                "completion_tokens_details": {"reasoning_tokens": 1, "audio_tokens": None},
            },
            Usage(
                input_tokens=5,
                output_tokens=2,
                cache_read_tokens=0,
                reasoning_tokens=1,
                extra={
                    "prompt_tokens_details": {"audio_tokens": 0},
                    "completion_tokens_details": {"audio_tokens": None},
                },
            ),
        ),
        ({"cost": 0.5, "is_byok": None}, Usage(input_tokens=5, output_tokens=2, extra={"cost": 0.5})),
    ],
    ids=["totals", "null details", "cached", "all details", "more members"],
)
def test_what_vendors_report_is_plain(details: dict[str, Any], usage: Usage) -> None:
    report = {"prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 7, **details}
    assert parse_plain_usage(report) == usage
    assert render_usage(usage).items() >= {"prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 7}.items()


@pytest.mark.parametrize(
    "report",
    [
        {"prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 9},
        {"prompt_tokens": 5, "completion_tokens": 2},
        {"prompt_tokens": 5, "completion_tokens": -1, "total_tokens": 4},
        {"prompt_tokens": -1, "completion_tokens": 5, "total_tokens": 4},
        {"prompt_tokens": 5, "completion_tokens": 2.0, "total_tokens": 7},
        {"prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 7, "prompt_cache_hit_tokens": 3},
    ],
    ids=[
        "another total",
        "no total",
        "fewer than none made",
        "fewer than none given",
        "a float",
        "the cache told elsewhere",
    ],
)
def test_other_reports_are_searched(report: dict[str, Any]) -> None:
    assert parse_plain_usage(report) is None
    assert parse_usage(report) == parse_any_usage(report) is not None


@pytest.mark.parametrize("count", [True, -1, 1.5, "1", []], ids=str)
@pytest.mark.parametrize(
    ("details", "member"),
    [
        ("prompt_tokens_details", "cached_tokens"),
        ("prompt_tokens_details", "cache_write_tokens"),
        ("completion_tokens_details", "reasoning_tokens"),
    ],
)
def test_a_report_with_a_share_that_is_no_count_is_searched(details: str, member: str, count: Any) -> None:
    report = {"prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 7, details: {member: count}}
    assert parse_plain_usage(report) is None
    assert parse_usage(report) == parse_any_usage(report)


REASONS: st.SearchStrategy[Any] = st.sampled_from(["stop", "length", "", "x", None, 1, [], {}])
CHOICES: st.SearchStrategy[Any] = st.lists(st.builds(dict, finish_reason=REASONS) | st.just({}), max_size=4)


@given(CHOICES)
def test_the_last_choice_with_a_reason_gives_it(choices: list[dict[str, Any]]) -> None:
    said = [choice.get("finish_reason") for choice in choices]
    words = [reason for reason in said if isinstance(reason, str) and reason]
    ours = {"stop": "stop", "length": "length", "x": "other"}
    wanted = ours[words[-1]] if words else ""
    meter = Meter(finish_reason="before")
    note_body(meter, {"choices": choices})
    assert (finish_of({"choices": choices}), meter.finish_reason) == (wanted, wanted or "before")


@pytest.mark.parametrize("choices", [None, {}, "stop", 1, [1, "stop", None, []]], ids=str)
def test_choices_of_no_known_shape_have_no_reason(choices: Any) -> None:
    assert finish_of({"choices": choices}) == finish_of({}) == ""
