"""Which token counts the gateway estimates itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.gates import FakeProvider, make_config, make_gate, model
from tornado_gate import errors
from tornado_gate.pipeline.gate import Gate
from tornado_gate.pipeline.token_counts import must_estimate
from tornado_gate.types import Call, Caller


def counts_upstream(gate: Gate, **fields: Any) -> bool:
    caller = Caller(id="k", account="a")
    defaults = {"id": "r", "operation": "count_tokens", "format": "plain", "model": "m", "caller": caller}
    return must_estimate(gate.snapshot.targets, Call(**{**defaults, **fields}))


@pytest.mark.parametrize(("operations", "estimated"), [({"chat"}, True), ({"chat", "count_tokens"}, False)])
def test_only_what_no_target_counts_is_estimated(tmp_path: Path, operations: set[str], estimated: bool) -> None:
    gate = make_gate(tmp_path, fake=FakeProvider(operations=frozenset(operations)))
    assert counts_upstream(gate) is estimated
    assert counts_upstream(gate, operation="chat") is False


def test_a_fallback_that_counts_is_better_than_an_estimate(tmp_path: Path) -> None:
    entries = {"m": model("m", "first", fallback=("other",)), "other": model("other", "second")}
    counts = FakeProvider(operations=frozenset({"count_tokens"}))
    config = make_config(tmp_path, entries, ("first", "second"))
    assert counts_upstream(make_gate(tmp_path, config, first=FakeProvider(), second=counts)) is False


def test_a_model_without_chat_has_no_prompt_to_count(tmp_path: Path) -> None:
    gate = make_gate(tmp_path, fake=FakeProvider(operations=frozenset({"embeddings"})))
    with pytest.raises(errors.UnsupportedOperation, match="count_tokens"):
        counts_upstream(gate)


def test_a_count_is_refused_as_the_request_itself_would_be(tmp_path: Path) -> None:
    gate = make_gate(tmp_path, fake=FakeProvider())
    with pytest.raises(errors.UnknownModel):
        counts_upstream(gate, model="no-such")
    with pytest.raises(errors.NotAllowed):
        counts_upstream(gate, caller=Caller(id="k", account="a", models=("x-*",)))
