"""Tests of the walk itself: its outcome for a field that vanishes."""

from __future__ import annotations

import asyncio
import base64
import json
from typing import Any

import pytest

from qa.matrix.fields import FETCHED, LINK, MASK, PICTURE, SECOND, Attached, Field, anyway, picture_file, row
from qa.matrix.media import MEDIA_WAYS
from qa.matrix.trips import Trip, arrived, marks, no_chance, uploads
from qa.matrix.walk import Outcome, Walk, classified
from qa.matrix.ways import UPSTREAMS, WAYS
from tornado_gate.errors import InvalidField, NotAllowed

WALK = Walk(WAYS[0], next(upstream for upstream in UPSTREAMS if upstream.plugin == "anthropic"))
PLAIN = row({}, "tools.strict", True)
MARKED = row({}, "user", "mark-user")


def sent(body: Any, *losses: str) -> Trip:
    return Trip(sent=("url", body), text=json.dumps(body), body=body, losses=losses)


def fate(field: Field, trip: Trip, bare: Trip | None = None) -> str:
    outcome: Outcome = classified(WALK, field, trip, sent({}) if bare is None else bare)
    return outcome.word


def test_a_field_that_changes_nothing_and_is_not_reported_is_silent() -> None:
    assert fate(PLAIN, sent({})) == "SILENT"


def test_a_body_that_changed_without_the_mark_of_the_field_is_silent() -> None:
    assert fate(MARKED, sent({"content": ["in another shape"]})) == "SILENT"
    assert fate(MARKED, sent({"person": "mark-user"})) == "translated"


def test_a_report_under_a_name_that_is_not_the_callers_is_misnamed() -> None:
    assert fate(PLAIN, sent({}, "werkzeuge.strict")) == "MISNAMED"
    assert fate(PLAIN, sent({}, "tools.strict")) == "reported"


def test_a_loss_that_the_body_has_without_the_field_too_is_no_report_of_it() -> None:
    assert fate(PLAIN, sent({}, "temperature"), sent({}, "temperature")) == "SILENT"


def test_a_field_of_which_a_part_goes_up_is_partly_lost() -> None:
    assert fate(MARKED, sent({"person": "mark-user"}, "user.name")) == "partly"


def test_a_refusal_must_name_the_field_and_be_the_callers_to_mend() -> None:
    assert fate(MARKED, Trip(error=InvalidField("user", "is wrong"))) == "refused"
    assert fate(MARKED, Trip(error=InvalidField("messages", "is wrong"))) == "MISNAMED"
    assert fate(MARKED, Trip(error=NotAllowed("no", param="user"))) == "MISNAMED"


def test_a_reason_to_leave_the_body_alone_counts_only_where_it_holds() -> None:
    assert fate(row({}, "user", True, idle=anyway("so it is", "anthropic")), sent({})) == "anyway"
    assert fate(row({}, "user", True, idle=anyway("so it is", "gemini")), sent({})) == "SILENT"


def test_a_table_whose_bare_body_is_refused_is_wrong() -> None:
    with pytest.raises(AssertionError, match="without the field is refused"):
        fate(PLAIN, sent({}), Trip(error=InvalidField("model", "is missing")))


def walk_to(way: str, upstream: str) -> Walk:
    found = next(one for one in MEDIA_WAYS if one.name == way)
    return Walk(found, next(one for one in (*found.upstreams, *found.variants) if one.name == upstream))


def pushed(walk: Walk, body: dict[str, Any]) -> Trip:
    with no_chance():
        return asyncio.run(walk.push(body))


def test_a_field_whose_companion_is_refused_is_refused_with_it() -> None:
    around = Trip(error=InvalidField("output_format", "is wrong"))
    needing = row({"output_format": "jpeg"}, "output_compression", 50, needs="output_format")
    assert fate(needing, around, around) == "refused"
    assert fate(row({}, "parts.1.name", "x"), *[Trip(error=InvalidField("parts.1", "is wrong"))] * 2) == "refused"
    with pytest.raises(AssertionError, match="without the field is refused"):
        fate(needing, sent({}), around)


def test_a_lane_that_translates_makes_nothing_verbatim() -> None:
    same = Trip(sent=("url", {"user": "mark-user"}), text="mark-user", body={"user": "mark-user"}, forwarded=True)
    assert fate(MARKED, same) == "verbatim"
    assert fate(MARKED, sent({"user": "mark-user"})) == "translated"


def test_the_files_of_a_form_are_named_as_clients_name_them() -> None:
    one, two = picture_file(PICTURE), picture_file(SECOND, "b.png")
    fields, files = uploads({"n": "2", "tags[]": ["a"], "mask": one, "image": [one, two]})
    assert fields == {"n": "2", "tags[]": ["a"]}
    assert [(file.field, file.filename) for file in files] == [
        ("mask", "picture.png"),
        ("image[]", "picture.png"),
        ("image[]", "b.png"),
    ]


def test_a_form_that_would_be_sent_is_read_back_whole() -> None:
    sound = Attached(filename="a.mp3", media_type="audio/mpeg", data=b"mark-sound-1\0\xff")
    body = {"model": "m", "file": sound, "prompt": "Words", "include": ["logprobs"]}
    trip = pushed(walk_to("transcriptions", "openai"), body)
    assert trip.body == {**body, "model": "gpt-4o-transcribe"}
    assert trip.forwarded
    assert marks(sound)
    assert all(arrived(mark, trip.text) for mark in marks(sound))


def test_a_picture_is_found_in_base64_and_in_bytes_and_no_other_is_taken_for_it() -> None:
    assert marks(picture_file(MASK)) == [MASK]
    assert arrived(MASK, json.dumps({"image": MASK}))
    assert arrived(MASK, base64.b64decode(MASK).decode("latin-1"))
    assert not arrived(MASK, json.dumps({"image": PICTURE}))


def test_a_picture_at_an_address_has_arrived_when_what_is_there_has() -> None:
    (mark,) = marks({"url": LINK})
    assert arrived(mark, json.dumps({"image": FETCHED}))
    assert not arrived(mark, json.dumps({"image": SECOND}))


def test_of_the_embedded_provider_the_orders_to_its_makers_are_compared() -> None:
    walk = walk_to("images", "local")
    body = {"model": "m", "prompt": "A cat"}
    plain, again, seeded = (pushed(walk, {**body, **more}) for more in ({}, {"user": "u"}, {"n": 2}))
    assert plain.sent == again.sent
    assert [name for name, _ in plain.sent[0]] == ["make_image"]
    assert [name for name, _ in seeded.sent[0]] == ["make_image", "make_image"]


def test_what_a_format_itself_cannot_carry_is_reported_too() -> None:
    body = {"contents": [{"parts": [{"text": "A cat"}]}], "labels": {"a": "b"}}
    assert pushed(walk_to("generateContent, pictures", "imagen"), body).losses == ("labels",)
