"""Items: where they go, what they hold, and what is forgotten."""

from __future__ import annotations

import base64

import pytest

from tests.realtime.voice.sessions import SPOKEN, TEXT_ONLY, Client, ScriptedMind, b64, silence, tone
from tornado_gate_openai.voice import AudioPiece, SessionLimits, TextPiece

PIXEL = "data:image/png;base64,iVBORw0KGgo="


def message(text: str = "x", role: str = "user", **fields: object) -> dict[str, object]:
    kind = "output_text" if role == "assistant" else "input_text"
    return {"type": "message", "role": role, "content": [{"type": kind, "text": text}], **fields}


async def create(client: Client, item: dict[str, object], **fields: object) -> dict[str, object]:
    await client.send("conversation.item.create", item=item, **fields)
    added = await client.next()
    assert added["type"] == "conversation.item.added", added
    done = await client.next()
    assert (done["type"], done["item"]) == ("conversation.item.done", added["item"])
    return added


@pytest.mark.gen_test
async def test_items_go_to_the_end_to_the_beginning_or_behind_another():
    client = Client(ScriptedMind())
    await client.ready()
    assert (await create(client, message(id="b")))["previous_item_id"] is None
    assert (await create(client, message(id="d")))["previous_item_id"] == "b"
    assert (await create(client, message(id="a"), previous_item_id="root"))["previous_item_id"] is None
    assert (await create(client, message(id="c"), previous_item_id="b"))["previous_item_id"] == "b"
    assert [item.id for item in client.session.conversation] == ["a", "b", "c", "d"]
    await client.send("conversation.item.create", item=message(id="e"), previous_item_id="nobody", event_id="ev")
    error = await client.error()
    assert (error["param"], error["event_id"]) == ("previous_item_id", "ev")
    await client.send("conversation.item.create", item=message(id="a"))
    assert (await client.error())["param"] == "item.id"
    await client.send("conversation.item.delete", item_id="b")
    assert (await client.next())["item_id"] == "b"
    assert [item.id for item in client.session.conversation] == ["a", "c", "d"]


@pytest.mark.parametrize(
    "item",
    [
        message(role="system"),
        message(role="assistant"),
        {
            "type": "message",
            "role": "user",
            "content": [
                {"type": "input_image", "image_url": PIXEL, "detail": "low"},
                {"type": "input_audio", "audio": b64(tone(100)), "transcript": "hm"},
            ],
        },
        {"type": "function_call", "name": "look", "call_id": "call_1", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "call_1", "output": "blue"},
    ],
    ids=["system", "assistant", "parts", "call", "output"],
)
@pytest.mark.gen_test
async def test_an_item_comes_back_as_it_was_given(item: dict[str, object]):
    client = Client(ScriptedMind())
    await client.ready()
    given = await create(client, {**item, "id": "mine"})
    await client.send("conversation.item.retrieve", item_id="mine")
    retrieved = (await client.next())["item"]
    assert retrieved == {**item, "id": "mine", "object": "realtime.item", "status": "completed"}
    assert "audio" not in str(given["item"]).replace("input_audio", "")


@pytest.mark.parametrize(
    ("item", "param"),
    [
        (message(role="tool"), "item.role"),
        ({"type": "mcp_approval_response", "approve": True}, "item.type"),
        (message(id=""), "item.id"),
        (message(id="root"), "item.id"),
        ({"type": "message", "role": "user", "content": "x"}, "item.content"),
        (
            {"type": "message", "role": "user", "content": [{"type": "input_image", "image_url": "ftp://x"}]},
            "item.content.0.image_url",
        ),
        (
            {"type": "message", "role": "assistant", "content": [{"type": "output_audio", "audio": ""}]},
            "item.content.0.audio",
        ),
    ],
)
@pytest.mark.gen_test
async def test_an_item_that_nobody_understands_is_refused(item: dict[str, object], param: str):
    client = Client(ScriptedMind())
    await client.ready()
    await client.send("conversation.item.create", item=item)
    assert (await client.error())["param"] == param
    assert list(client.session.conversation) == []


@pytest.mark.gen_test
async def test_truncating_cuts_the_sound_and_forgets_the_words_that_were_not_heard():
    mind = ScriptedMind(TextPiece("One two three four."), AudioPiece(tone(1000)))
    client = Client(mind)
    await client.ready()
    item_id = (await client.answered())["output"][0]["id"]
    place = {"item_id": item_id, "content_index": 0}
    await client.send("conversation.item.truncate", **place, audio_end_ms=1001)
    assert (await client.error())["param"] == "audio_end_ms"
    await client.send("conversation.item.truncate", **place | {"content_index": 1}, audio_end_ms=1)
    assert (await client.error())["param"] == "content_index"
    await client.send("conversation.item.truncate", **place, audio_end_ms=500)
    truncated = await client.event("conversation.item.truncated")
    assert (truncated["item_id"], truncated["audio_end_ms"]) == (item_id, 500)
    await client.send("conversation.item.retrieve", item_id=item_id)
    part = (await client.next())["item"]["content"][0]
    assert part["transcript"] == ""
    assert len(base64.b64decode(part["audio"])) == 24_000
    await client.say("go on")
    await client.answered()
    assert mind.turns[-1].items[0].parts[0].heard_words == "One two"
    user = await client.say("text")
    await client.send("conversation.item.truncate", item_id=user, content_index=0, audio_end_ms=0)
    assert (await client.error())["param"] == "content_index"


@pytest.mark.gen_test
async def test_a_conversation_that_is_full_says_so_and_goes_on_when_items_are_deleted():
    client = Client(ScriptedMind(TextPiece("Hi.")), limits=SessionLimits(items=2))
    await client.ready(**TEXT_ONLY)
    first, _ = await client.say("a"), await client.say("b")
    await client.send("conversation.item.create", item=message())
    assert (await client.error())["code"] == "conversation_full"
    response = await client.answered()
    assert response["status_details"]["error"]["code"] == "conversation_full"
    assert (await client.error())["code"] == "conversation_full"
    await client.send("conversation.item.delete", item_id=first)
    await client.event("conversation.item.deleted")
    assert (await client.answered())["status"] == "completed"


@pytest.mark.gen_test
async def test_text_is_bounded_too():
    client = Client(ScriptedMind(), limits=SessionLimits(characters=100))
    await client.ready()
    await client.send("conversation.item.create", item=message("x" * 101))
    assert (await client.error())["code"] == "conversation_full"
    await client.say("x" * 100)


@pytest.mark.gen_test
async def test_of_sound_the_oldest_is_forgotten_and_its_words_remain():
    client = Client(ScriptedMind(*SPOKEN, words="what was said"), limits=SessionLimits(sound=60_000))
    await client.ready(audio={"input": {"turn_detection": None, "transcription": {"model": "any"}}})
    await client.append(tone(1000))
    await client.send("input_audio_buffer.commit")
    await client.event("conversation.item.input_audio_transcription.completed")
    await client.append(silence(1000))
    await client.send("input_audio_buffer.commit")
    await client.event("conversation.item.input_audio_transcription.completed")
    old, new = (item.parts[0] for item in client.session.conversation)
    assert (old.pcm, old.seconds, old.transcript) == (None, 1.0, "what was said")
    assert new.kept_bytes == 48_000


@pytest.mark.gen_test
async def test_an_item_that_is_deleted_while_it_is_made_is_not_told_of_again():
    client = Client(ScriptedMind(TextPiece("a"), TextPiece("b")), limits=SessionLimits(outbox=1))
    await client.ready(**TEXT_ONLY)
    await client.send("response.create")
    item_id = (await client.event("conversation.item.added"))["item"]["id"]
    client.session.conversation.remove(client.session.conversation.find(item_id))
    assert "conversation.item.done" not in [one["type"] for one in await client.until("response.done")]
