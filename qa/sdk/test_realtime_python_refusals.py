"""openai-python and conversations by voice that do not begin, or go wrong; and keys for pages."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any

import openai
import pytest
from websockets.exceptions import InvalidStatus

from qa.sdk import realtime_gateway
from qa.sdk.realtime_gateway import KEY, UPSTREAM_KEY, Stage, joined, openai_client, until
from qa.sdk.realtime_script import Event
from tests.support.ws_upstream import WsUpstream

stage = realtime_gateway.stage
upstream = realtime_gateway.upstream


@pytest.fixture
def client(stage: Stage) -> Iterator[openai.OpenAI]:
    with openai_client(stage) as client:
        yield client


# Keys for pages


@pytest.mark.parametrize("model", ["voice", "local-realtime"])
def test_a_client_secret_opens_sessions_with_its_model_only(
    stage: Stage, client: openai.OpenAI, upstream: WsUpstream, model: str
) -> None:
    before = time.time()
    made = client.realtime.client_secrets.create(
        session={"type": "realtime", "model": model, "instructions": "Be brief."},
        expires_after={"anchor": "created_at", "seconds": 60},
    )
    assert made.value.startswith("ek_")
    assert before + 55 <= made.expires_at <= time.time() + 61
    assert made.session.type == "realtime"
    with openai_client(stage, made.value) as page:
        with page.realtime.connect(model=model) as connection:
            connection.response.create(response={"output_modalities": ["text"]})
            assert joined(until(connection, "response.done"), "response.output_text.delta")
        assert status_of(page, "slow-realtime") == 403
        with pytest.raises(openai.AuthenticationError):
            page.chat.completions.create(model="local-chat", messages=[{"role": "user", "content": "hello"}])


def test_a_session_of_a_client_secret_begins_as_the_secret_says(stage: Stage, client: openai.OpenAI) -> None:
    made = client.realtime.client_secrets.create(
        session={
            "type": "realtime",
            "model": "local-realtime",
            "output_modalities": ["text"],
            "instructions": "Be kind.",
        }
    )
    with (
        openai_client(stage, made.value) as page,
        page.realtime.connect(model="local-realtime") as connection,
    ):
        session = until(connection, "session.created")[0]["session"]
        assert (session["output_modalities"], session["instructions"]) == (["text"], "Be kind.")


SECRETS: list[tuple[Event, type[openai.APIStatusError], str]] = [
    ({"session": {"type": "realtime", "model": "no-such"}}, openai.NotFoundError, "model"),
    ({"session": {"type": "realtime", "model": "local-chat"}}, openai.BadRequestError, "model"),
    ({"session": {"type": "realtime"}}, openai.BadRequestError, "session.model"),
    (
        {"session": {"type": "realtime", "model": "voice"}, "expires_after": {"anchor": "created_at", "seconds": 1}},
        openai.BadRequestError,
        "expires_after.seconds",
    ),
]


@pytest.mark.parametrize(("asked", "error", "param"), SECRETS, ids=range(len(SECRETS)))
def test_a_bad_request_for_a_client_secret_says_which_field(
    client: openai.OpenAI, asked: Event, error: type[openai.APIStatusError], param: str
) -> None:
    with pytest.raises(error) as caught:
        client.realtime.client_secrets.create(**asked)
    assert caught.value.param == param


# Refusals


def status_of(client: openai.OpenAI, model: str, beta: bool = False) -> int:
    """The HTTP status with which the handshake is refused."""
    with pytest.raises(InvalidStatus) as caught:
        (client.beta.realtime if beta else client.realtime).connect(model=model).enter()
    body = json.loads(caught.value.response.body or b"{}")
    assert body["error"]["message"]
    return caught.value.response.status_code


@pytest.mark.parametrize("beta", [False, True])
def test_a_model_that_is_not_there_is_404_and_one_without_a_voice_400(client: openai.OpenAI, beta: bool) -> None:
    assert status_of(client, "no-such-model", beta) == 404
    assert status_of(client, "local-chat", beta) == 400


def test_a_wrong_key_is_401(stage: Stage) -> None:
    with openai_client(stage, "wrong") as client:
        assert status_of(client, "voice") == 401


@pytest.mark.parametrize(("status", "answered"), [(401, 502), (429, 429), (500, 502)])
def test_an_upstream_that_refuses_is_told_in_the_handshake(
    client: openai.OpenAI, upstream: WsUpstream, status: int, answered: int
) -> None:
    upstream.refuses = status
    assert status_of(client, "voice") == answered


BAD: list[tuple[Any, str]] = [
    ({"type": "no.such.event"}, "type"),
    ({"type": "session.update", "session": {"type": "realtime", "output_modalities": ["smell"]}}, "session."),
    ({"type": "input_audio_buffer.append", "audio": "%%%"}, "audio"),
    ({"type": "conversation.item.create", "item": {"type": "message", "role": "nobody", "content": []}}, "item."),
    ({"type": "response.create", "response": {"max_output_tokens": True}}, "response."),
]


@pytest.mark.parametrize(("bad", "param"), BAD, ids=[str(bad["type"]) for bad, _ in BAD])
def test_what_the_embedded_model_finds_wrong_is_an_error_event_and_the_session_lives(
    client: openai.OpenAI, stage: Stage, bad: Any, param: str
) -> None:
    with client.realtime.connect(model="local-realtime") as connection:
        event: Any = {**bad, "event_id": "mine"}
        connection.send(event)
        error = until(connection, "error")[-1]["error"]
        assert error["param"].startswith(param)
        assert (error["event_id"], error["type"]) == ("mine", "invalid_request_error")
        connection.response.create(response={"output_modalities": ["text"]})
        assert until(connection, "response.done")[-1]["response"]["status"] == "completed"


def test_no_key_is_in_the_log(stage: Stage) -> None:
    for secret in (KEY, UPSTREAM_KEY, "ek_"):
        assert secret not in stage.gateway.logs
