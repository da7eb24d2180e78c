"""The caller's end of a realtime session: dialects, what is counted, what is lost."""

from __future__ import annotations

import json
from typing import Any

import pytest
from format_openai_calls import call_for

from tornado_gate.errors import InvalidField
from tornado_gate.testing import wire_request
from tornado_gate.types import replace
from tornado_gate_openai.format import realtime
from tornado_gate_openai.format.realtime import OpenAIRealtimeAdapter, open_session

DONE = {"type": "response.done", "response": {"usage": {"input_tokens": 2, "output_tokens": 3, "total_tokens": 5}}}


def side(dialect: str = "auto", **headers: str) -> OpenAIRealtimeAdapter:
    call = replace(call_for("m"), operation="realtime", dialect=dialect)
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return open_session(call, replace(wire_request(realtime.ROUTES[0]), headers=named))


@pytest.mark.parametrize(
    ("conf", "headers", "dialect"),
    [
        ("auto", {}, "beta"),
        ("auto", {"x_stainless_lang": "python"}, "current"),
        ("auto", {"user_agent": "Agents/Python 1"}, "current"),
        ("auto", {"x_stainless_lang": "python", "openai_beta": "realtime=v1"}, "beta"),
        ("contract", {"x_stainless_lang": "python"}, "beta"),
        ("vendor", {}, "current"),
    ],
)
def test_the_dialect_is_the_handshakes_unless_conf_says(conf: str, headers: dict[str, str], dialect: str) -> None:
    assert side(conf, **headers).request.dialect == dialect


def test_a_page_with_a_client_secret_speaks_the_dialect_of_today() -> None:
    call = replace(call_for("m"), operation="realtime")
    wire = replace(wire_request(realtime.ROUTES[0]), json={"session": {"type": "realtime", "model": "m"}})
    assert open_session(call, wire).request.dialect == "current"
    beta = replace(wire, headers={"sec-websocket-protocol": "realtime, openai-beta.realtime-v1"})
    assert open_session(call, beta).request.dialect == "beta"


def test_the_subprotocol_is_selected_when_it_is_offered() -> None:
    assert side(sec_websocket_protocol="other, realtime").subprotocol == "realtime"
    assert side(sec_websocket_protocol="other").subprotocol == ""


def test_what_all_answers_of_a_session_took_is_summed() -> None:
    one = side("vendor")
    one.set_upstream_dialect("current")
    for _ in range(3):
        assert one.translate_server_message(json.dumps(DONE)) == [json.dumps(DONE)]
    usage = one._call.meter.usage
    assert usage is not None
    assert (usage.input_tokens, usage.output_tokens) == (6, 9)


def test_usage_that_cannot_be_counted_harms_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(_: Any) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(realtime, "parse_usage", fails)
    one = side("vendor")
    one.set_upstream_dialect("current")
    assert one.translate_server_message(json.dumps(DONE)) == [json.dumps(DONE)]


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"type": 1}', "null"])
def test_what_is_no_event_is_refused(text: str) -> None:
    one = side("vendor")
    one.set_upstream_dialect("current")
    with pytest.raises(InvalidField):
        one.translate_client_message(text)


def test_what_the_other_dialect_cannot_say_is_lost_by_name() -> None:
    one = side()
    one.set_upstream_dialect("current")
    one.translate_client_message(
        json.dumps({"type": "session.update", "session": {"modalities": ["text"], "temperature": 0.7}})
    )
    assert one._call.losses == ["session.temperature"]
