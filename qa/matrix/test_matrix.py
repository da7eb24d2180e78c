"""No field vanishes unreported, for every way and every upstream."""

from __future__ import annotations

import json

import pytest

from qa.matrix.fields import ABSENT, find_value, put, removed
from qa.matrix.media import MEDIA_WAYS, OTHER_WAYS
from qa.matrix.page import pages
from qa.matrix.trips import marks
from qa.matrix.walk import BAD, Walk, about, outcomes, strict_trips
from qa.matrix.ways import UPSTREAMS, VARIANTS, WAYS, Upstream, Way
from tests.support.variants import represent

EVERY_WAY = (*WAYS, *MEDIA_WAYS, *OTHER_WAYS)
every_way = pytest.mark.parametrize("way", EVERY_WAY, ids=lambda way: way.name)
every_pair = pytest.mark.parametrize(
    ("way", "upstream"),
    represent(
        [(way, upstream) for way in EVERY_WAY for upstream in (*way.upstreams, *way.variants)], lambda pair: pair[0]
    ),
    ids=lambda part: part.name,
)


@every_pair
def test_no_field_is_dropped_in_silence(way: Way, upstream: Upstream) -> None:
    dropped = [
        f"{outcome.word} {row.name} ({outcome.detail})"
        for row, outcome in outcomes(way, upstream).items()
        if outcome.word in BAD
    ]
    assert dropped == []


@every_pair
def test_a_strict_caller_gets_a_400_that_names_what_would_be_lost(way: Way, upstream: Upstream) -> None:
    wrong = []
    for row, trip in strict_trips(way, upstream).items():
        param = trip.error.param if trip.error is not None and trip.error.status == 400 else ""
        if not about(param, row.at) and param not in outcomes(way, upstream)[row].others:
            wrong.append(f"{row.name}: {trip.error!r}")
    assert wrong == []


STORED = ("/files/mark-file", '"file_id": "mark-file"')
"""How rows name a file that lies at a vendor."""
VENDORS = {"chat": "openai", "responses": "openai", "messages": "anthropic", "generateContent": "gemini"}
ABROAD = [
    pytest.param(way, upstream, id=f"{way.name}-{upstream.name}")
    for way in WAYS
    for upstream in (*UPSTREAMS, *VARIANTS)
    if way.name in VENDORS and upstream.plugin not in ("local", VENDORS[way.name])
]


@pytest.mark.parametrize(("way", "upstream"), ABROAD)
def test_the_id_of_a_stored_file_goes_to_no_other_vendor(way: Way, upstream: Upstream) -> None:
    fates = {
        row.name: outcome.word
        for row, outcome in outcomes(way, upstream).items()
        if any(word in json.dumps(row.value) for word in STORED)
    }
    assert fates
    assert {name: word for name, word in fates.items() if word not in ("reported", *BAD)} == {}


@every_way
def test_names_of_rows_are_not_repeated(way: Way) -> None:
    names = [row.name for group in way.groups for row in group.fields]
    assert sorted(names) == sorted(set(names))


@every_way
def test_a_body_and_the_one_beside_it_differ_in_the_field_alone(way: Way) -> None:
    for group in way.groups:
        for row in group.fields:
            assert find_value(row.body, row.at) == row.value
            assert find_value(row.without, row.at) != row.value
            assert put(row.without, row.at, row.value) == row.body


@pytest.mark.representative
def test_the_pages_are_what_the_walk_sees() -> None:
    for path, text in pages().items():
        assert path.read_text(encoding="utf-8") == text, f"{path.name} is out of date; run: python -m qa.matrix"


@pytest.mark.parametrize("way", MEDIA_WAYS, ids=lambda way: way.name)
def test_every_upstream_with_a_column_does_the_operation_and_no_other_plugin_does(way: Way) -> None:
    walks = [Walk(way, upstream) for upstream in (*way.upstreams, *way.variants)]
    assert all(walk.served for walk in walks)
    operation = Walk(way, next(upstream for upstream in way.upstreams if upstream.plugin == "openai")).operation
    others = {"openai", "anthropic", "gemini", "dashscope", "local"} - {upstream.plugin for upstream in way.upstreams}
    for plugin in others:
        walk = Walk(way, Upstream(name=plugin, plugin=plugin, model="m"))
        assert operation not in walk.capabilities.operations, f"{plugin} wants a column"


def test_a_place_is_put_found_and_removed() -> None:
    body = put({"a": [{"b": 1}]}, "a.0.c.d", 2)
    assert body == {"a": [{"b": 1, "c": {"d": 2}}]}
    assert find_value(body, "a.0.c.d") == 2
    assert find_value(body, "a.7.c") is ABSENT
    assert removed(body, "a.0.c.d") == {"a": [{"b": 1}]}


@pytest.mark.parametrize(
    ("reported", "named"),
    [
        ("tools", True),
        ("tools.0.function.strict", True),
        ("tools.0.function.strict.deeper", True),
        ("tools.0.strict", True),
        ("tools.1.strict", False),
        ("tool", False),
        ("strict", False),
        ("", False),
    ],
)
def test_a_report_names_a_field_a_place_above_or_one_below(reported: str, named: bool) -> None:
    assert about(reported, "tools.0.function.strict") is named


def test_marks_are_found_in_values_and_in_base64() -> None:
    assert marks({"a": ["mark-one.", "https://x.example/mark-two.png"]}) == ["mark-one", "mark-two.png"]
    assert marks("bWFyay10d28=") == ["bWFyay10d28="]
