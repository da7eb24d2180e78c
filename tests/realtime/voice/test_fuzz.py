"""Whatever a caller sends, the session answers with events that are JSON, and lives on."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.realtime.voice.sessions import SPOKEN, Client, ScriptedMind, b64, silence, tone
from tornado_gate_openai.voice import CallPiece, SessionLimits


def _words(text: str) -> st.SearchStrategy[str]:
    return st.sampled_from(text.split())


SCALARS = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text(max_size=9))
NAMES = st.sampled_from(
    [
        "type",
        "id",
        "role",
        "content",
        "text",
        "audio",
        "transcript",
        "item",
        "item_id",
        "previous_item_id",
        "call_id",
        "output",
        "name",
        "arguments",
        "response",
        "session",
        "instructions",
        "output_modalities",
        "tools",
        "tool_choice",
        "turn_detection",
        "input",
        "format",
        "voice",
        "speed",
        "conversation",
        "metadata",
        "max_output_tokens",
        "audio_end_ms",
        "content_index",
        "response_id",
        "event_id",
        "image_url",
        "transcription",
        "threshold",
    ]
)
WORDS = st.sampled_from(
    [
        "message",
        "function_call",
        "function_call_output",
        "item_reference",
        "input_text",
        "input_audio",
        "output_audio",
        "user",
        "assistant",
        "system",
        "root",
        "auto",
        "none",
        "required",
        "realtime",
        "text",
        "audio",
        "server_vad",
        "semantic_vad",
        "audio/pcm",
        "audio/pcmu",
        "inf",
        "known",
    ]
)
SOUND = st.sampled_from([b64(tone(300)), b64(silence(800)), b64(b"abc"), "%%"])
LEAVES = st.one_of(SCALARS, WORDS, WORDS, SOUND)
JSON = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(NAMES, inner, max_size=5), max_leaves=12
)
ITEM = st.fixed_dictionaries(
    {"type": st.sampled_from(["message", "function_call", "function_call_output"])},
    optional={
        "id": st.sampled_from(["known", "other", ""]),
        "role": st.sampled_from(["user", "assistant", "system"]),
        "content": st.lists(
            st.fixed_dictionaries(
                {"type": WORDS}, optional={"text": st.text(max_size=5), "audio": SOUND, "transcript": LEAVES}
            ),
            max_size=2,
        ),
        "call_id": LEAVES,
        "name": LEAVES,
        "arguments": LEAVES,
        "output": LEAVES,
    },
)
KINDS = st.sampled_from(
    [
        "session.update",
        "input_audio_buffer.append",
        "input_audio_buffer.commit",
        "input_audio_buffer.clear",
        "conversation.item.create",
        "conversation.item.retrieve",
        "conversation.item.truncate",
        "conversation.item.delete",
        "response.create",
        "response.cancel",
        "output_audio_buffer.clear",
        "transcription_session.update",
        "nonsense",
    ]
)
EVENTS = st.fixed_dictionaries(
    {"type": st.one_of(KINDS, LEAVES)},
    optional={
        "event_id": LEAVES,
        "audio": SOUND,
        "item": st.one_of(ITEM, JSON),
        "item_id": st.sampled_from(["known", "other"]),
        "previous_item_id": st.sampled_from([None, "root", "known", "other"]),
        "content_index": st.integers(-1, 2),
        "audio_end_ms": st.integers(-1, 400),
        "session": JSON,
        "response": st.one_of(
            JSON, st.fixed_dictionaries({"conversation": WORDS, "input": st.lists(ITEM, max_size=2)})
        ),
        "response_id": LEAVES,
    },
)
MESSAGES = st.one_of(EVENTS.map(json.dumps), EVENTS.map(json.dumps), JSON.map(json.dumps), st.text(max_size=20))


async def conversation(messages: list[str]) -> list[dict[str, Any]]:
    """All that a session says to these messages, and to one more that asks for an answer."""
    mind = ScriptedMind(*SPOKEN, CallPiece("call_1", "f", "{}"))
    client = Client(mind, limits=SessionLimits(items=12, characters=2_000, sound=60_000, input_buffer=100_000))
    reading = asyncio.create_task(client.until("response.output_item.done"))
    for message in messages:
        await client.session.send(message)
    reading.cancel()
    await asyncio.gather(reading, return_exceptions=True)
    for item in list(client.session.conversation):
        client.session.conversation.remove(item)
    await client.session.interrupt("turn_detected")
    client.session.start_response()
    events = await client.until("response.done")
    while events[-1]["response"]["status"] == "cancelled":
        events = await client.until("response.done")
    await client.session.close()
    return client.seen


@settings(deadline=None, max_examples=150)
@given(st.lists(MESSAGES, max_size=12))
def test_no_message_ends_a_session_or_finds_a_fault_in_it(messages: list[str]):
    events = asyncio.run(conversation(messages))
    assert events[-1]["response"]["status"] == "completed"
    faults = [one for one in events if one["type"] == "error" and one["error"]["code"] == "internal_error"]
    assert faults == []
