"""Conversations with a realtime upstream that others wrote: aimock, which speaks today's dialect and refuses the one before.

Its events are those of its authors: what is asserted is what a client makes of them, not their shapes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import openai
import pytest
from websockets.exceptions import ConnectionClosed

from qa.sdk import realtime_gateway
from qa.sdk.realtime_gateway import KEY, Stage, joined, send_text, until
from qa.sdk.realtime_script import Event
from tests.support.aimock import Aimock

stage = realtime_gateway.stage


@pytest.fixture
def client(stage: Stage) -> Iterator[openai.OpenAI]:
    with realtime_gateway.openai_client(stage) as client:
        yield client


def turn(connection: Any, text: str) -> list[Event]:
    send_text(connection, text)
    connection.response.create()
    return until(connection, "response.done", vendors=False)


def test_a_turn_of_todays_client(client: openai.OpenAI, aimock: Aimock) -> None:
    with client.realtime.connect(model="mock-voice") as connection:
        connection.session.update(session={"type": "realtime", "output_modalities": ["text"]})
        events = turn(connection, "Say hello")
    assert joined(events, "response.output_text.delta").startswith("Hello")
    assert events[-1]["response"]["status"] == "completed"
    latest = aimock.journal()[-1]
    assert (latest.method, latest.path, latest.status) == ("WS", "/v1/realtime", 200)
    assert latest.body["model"] == "gpt-realtime"
    assert KEY not in str(latest.headers)


def test_a_turn_of_a_client_of_the_dialect_before(client: openai.OpenAI, aimock: Aimock) -> None:
    """aimock refuses ``OpenAI-Beta: realtime=v1``, so that it must be the gateway that translates."""
    with client.beta.realtime.connect(model="mock-voice") as connection:
        connection.session.update(session={"modalities": ["text"], "instructions": "Answer in one word."})
        updated = until(connection, "session.updated", vendors=False)[-1]["session"]
        assert updated["instructions"] == "Answer in one word."
        events = turn(connection, "Say hello")
    assert joined(events, "response.text.delta").startswith("Hello")
    kinds = [event["type"] for event in events]
    assert "conversation.item.created" in kinds
    assert not [kind for kind in kinds if "output_text" in kind]
    assert events[-1]["response"]["output"][0]["content"][0]["type"] == "text"
    assert aimock.journal()[-1].body["messages"][0] == {"role": "system", "content": "Answer in one word."}


@pytest.mark.parametrize("beta", [False, True])
def test_a_tool_is_called_and_its_result_answered(client: openai.OpenAI, beta: bool) -> None:
    connect = client.beta.realtime.connect if beta else client.realtime.connect
    with connect(model="mock-voice") as connection:
        (called,) = (
            event["item"]
            for event in turn(connection, "What is the weather in Paris?")
            if event["type"] == "response.output_item.done"
        )
        assert (called["name"], called["arguments"]) == ("get_weather", '{"city": "Paris"}')
        output: Any = {"type": "function_call_output", "call_id": called["call_id"], "output": "18 degrees"}
        connection.conversation.item.create(item=output)
        connection.response.create()
        events = until(connection, "response.done", vendors=False)
    assert joined(events, "response.text.delta" if beta else "response.output_text.delta").startswith(
        "It is 18 degrees"
    )


@pytest.mark.parametrize("beta", [False, True])
def test_an_answer_that_fails_upstream_says_why_and_the_session_lives(client: openai.OpenAI, beta: bool) -> None:
    connect = client.beta.realtime.connect if beta else client.realtime.connect
    with connect(model="mock-voice") as connection:
        failed = turn(connection, "fail with a rate limit")[-1]["response"]
        assert failed["status"] == "failed"
        assert failed["status_details"]["error"]["code"] == "rate_limit_exceeded"
        assert turn(connection, "Say hello")[-1]["response"]["status"] == "completed"


def test_an_upstream_that_no_longer_takes_a_dialect_says_so_and_how_it_closes_is_carried_over(
    client: openai.OpenAI,
) -> None:
    with client.realtime.connect(model="mock-old-voice") as connection:
        error = until(connection, "error", vendors=False)[-1]["error"]
        assert error["code"] == "beta_api_shape_disabled"
        with pytest.raises(ConnectionClosed) as caught:
            connection.recv()
        assert caught.value.rcvd is not None
        assert (caught.value.rcvd.code, caught.value.rcvd.reason) == (
            4000,
            "invalid_request_error.beta_api_shape_disabled",
        )
