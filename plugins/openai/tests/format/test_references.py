"""Which ids in a body name objects of an upstream account."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from format_openai_calls import call_for, wire_with
from hypothesis import given
from hypothesis import strategies as st

from tornado_gate.types import ResponseRules
from tornado_gate_openai.format import references

CALL = call_for()
PLAIN: dict[str, Any] = {"model": "m", "input": "Hi"}
NESTED = st.recursive(
    st.just({"file_id": "file-x"}),
    lambda inner: st.one_of(
        st.lists(inner, min_size=1, max_size=2),
        st.fixed_dictionaries({"type": st.just("new_kind"), "content": inner}),
        st.fixed_dictionaries({"source": inner, "text": st.text()}),
    ),
)


def listed(body: Any) -> list[tuple[str, str, str]]:
    wire = wire_with(body, "/v1/responses")
    return [(found.kind, found.id, found.param) for found in references.list_response_references(CALL, wire)]


@given(place=st.sampled_from(["input", "tools", "a_member_of_next_year"]), value=NESTED)
def test_a_file_is_found_at_any_depth(place: str, value: Any) -> None:
    body = {**PLAIN, place: [value]}
    found = listed(body)
    assert found
    for kind, identity, param in found:
        assert (kind, identity) == ("file", "file-x")
        target: Any = body
        for name in param.split("."):
            target = target[int(name)] if isinstance(target, list) else target[name]
        assert target == "file-x"  # the path leads to the id


@pytest.mark.parametrize(
    "body",
    [
        PLAIN,
        {**PLAIN, "metadata": {"file_id": "mine", "container": "mine"}},
        {**PLAIN, "previous_response_id": None, "conversation": None, "prompt": None},
        {**PLAIN, "previous_response_id": 5, "conversation": [], "prompt": {"id": 5}},
        {**PLAIN, "tools": [{"type": "function", "name": "f", "parameters": {"default": {"file_id": "mine"}}}]},
        {**PLAIN, "tools": [{"type": "code_interpreter", "container": {"type": "auto"}}]},
        {**PLAIN, "tools": [{"type": "shell", "environment": {"skills": [{"skill_id": "openai-spreadsheets"}]}}]},
        {**PLAIN, "input": [{"role": "user", "content": '{"file_id": "x"}'}]},
        {**PLAIN, "input": [{"type": "message", "id": "msg_1", "role": "assistant", "content": []}]},
        {**PLAIN, "input": [{"type": "function_call", "id": "fc_1", "call_id": "c", "name": "f", "arguments": "{}"}]},
        {**PLAIN, "input": [{"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "x"}]},
        {**PLAIN, "input": [{"type": "additional_tools", "id": "at_1", "role": "developer", "tools": []}]},
        {**PLAIN, "input": [{"role": "assistant", "content": [{"text": "", "annotations": [{"file_id": "cited"}]}]}]},
        {**PLAIN, "input": [5, None, "x", {"id": 5}]},
    ],
    ids=lambda body: orjson.dumps(body).decode()[26:90],
)
def test_what_is_no_reference(body: dict[str, Any]) -> None:
    assert listed(body) == []


def test_the_error_for_a_previous_response_names_the_setting_that_forbids_it() -> None:
    wire = wire_with({**PLAIN, "previous_response_id": "resp_1"}, "/v1/responses")
    for mode, text in (("default", "resp_1"), ("never", "store: never")):
        call = CALL.replace(responses=ResponseRules(store=mode))  # type: ignore[arg-type]
        (reference,) = references.list_response_references(call, wire)
        error = reference.not_found()
        assert (error.status, error.code, error.param) == (400, "previous_response_not_found", "previous_response_id")
        assert text in error.message
