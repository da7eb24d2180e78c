"""The walk itself: what it would see if a field vanished."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.matrix.fields import Field, anyway, row
from tests.matrix.walk import Outcome, Trip, Walk, classified
from tests.matrix.ways import UPSTREAMS, WAYS
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
