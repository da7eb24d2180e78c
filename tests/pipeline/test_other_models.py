"""Where bodies name other models, and what a limited key may name."""

from __future__ import annotations

import time
from typing import Any

import pytest

from tornado_gate.errors import NotAllowed
from tornado_gate.pipeline.other_models import check_message, check_other_models, find_other_models
from tornado_gate.types import Caller
from tornado_gate_openai.fields import route_members

LIMITED = Caller(id="k", account="a", models=("gpt-*",))


@pytest.mark.parametrize(
    ("body", "found"),
    [
        ({"tools": [{"model": "m"}, {"name": "n"}, "text", None]}, [("tools.0.model", "m")]),
        ({"tools": [{"MODEL": "m", "model": "n"}]}, [("tools.0.MODEL", "m"), ("tools.0.model", "n")]),
        ({"tools": [{"model": ["m", 7]}]}, [("tools.0.model.0", "m")]),
        ({"plugins": [{"allowed_models": [7, "m"]}]}, [("plugins.0.allowed_models.1", "m")]),
        ({"tools": {"model": "m"}, "moderation": "m", "model": "m", "metadata": {"model": "m"}}, []),
        ({"tools": [{"parameters": {"type": "object", "properties": {"model": {"type": "string"}}}}]}, []),
        ({"moderation": {"model": "m"}}, [("moderation.model", "m")]),
    ],
)  # fmt: skip
def test_the_models_of_a_body_are_found_at_their_places(body: Any, found: list[tuple[str, str]]) -> None:
    assert list(find_other_models(route_members.CHAT_MODELS, body)) == found


@pytest.mark.parametrize("model", ["other", "x" * 100_000, "gpt-" + "x" * 300, ""])
def test_a_limited_key_may_not_name_another_model(model: str) -> None:
    body = {"tools": [{"model": "GPT-x"}, {"model": model}]}
    with pytest.raises(NotAllowed) as refused:
        check_other_models(LIMITED, route_members.CHAT_MODELS, body)
    assert (refused.value.param, refused.value.code) == ("tools.1.model", "model_not_allowed")
    assert len(refused.value.message) < 300
    check_other_models(Caller(id="k", account="a"), route_members.CHAT_MODELS, body)


def test_a_message_of_a_session_is_checked_unless_it_is_no_json() -> None:
    """The format refuses what is no JSON."""
    message = '{"type": "session.update", "session": {"audio": {"input": {"transcription": {"model": "other"}}}}}'
    with pytest.raises(NotAllowed, match="other"):
        check_message(LIMITED, route_members.REALTIME_MODELS, message)
    check_message(LIMITED, route_members.REALTIME_MODELS, message[:-1])


def test_a_body_with_very_many_members_is_walked_fast() -> None:
    items = [{"type": "message", "role": "user", "content": "x", "id": str(number)} for number in range(25_000)]
    began = time.thread_time()
    assert not list(find_other_models(route_members.RESPONSE_MODELS, {"input": items, "tools": []}))
    assert time.thread_time() - began < 0.5
