"""Every event of the vendor's SDK in both dialects, as pairs that say the same."""

from __future__ import annotations

import typing
from typing import Any, NamedTuple

from openai.types.beta.realtime.realtime_client_event import RealtimeClientEvent as BetaClientEvent
from openai.types.beta.realtime.realtime_server_event import RealtimeServerEvent as BetaServerEvent
from openai.types.realtime.realtime_client_event import RealtimeClientEvent as CurrentClientEvent
from openai.types.realtime.realtime_server_event import RealtimeServerEvent as CurrentServerEvent
from pydantic import TypeAdapter

Event = dict[str, Any]

BETA_CLIENT: TypeAdapter[Any] = TypeAdapter(BetaClientEvent)
BETA_SERVER: TypeAdapter[Any] = TypeAdapter(BetaServerEvent)
CURRENT_CLIENT: TypeAdapter[Any] = TypeAdapter(CurrentClientEvent)
CURRENT_SERVER: TypeAdapter[Any] = TypeAdapter(CurrentServerEvent)


def types_of(union: Any) -> set[str]:
    """The event types in one of the SDK's unions."""
    members = typing.get_args(typing.get_args(union)[0])
    return {typing.get_args(member.model_fields["type"].annotation)[0] for member in members}


class Pair(NamedTuple):
    """One event of the beta dialect, and the events of the current one that say the same."""

    beta: Event
    current: list[Event]


def same(event: Event) -> Pair:
    return Pair(event, [event])


def client(kind: str, **members: Any) -> Event:
    return {"type": kind, "event_id": "mine_1", **members}


def server(kind: str, **members: Any) -> Event:
    return {"type": kind, "event_id": "event_1", **members}


PLACE = {"response_id": "resp_1", "item_id": "item_1", "output_index": 0, "content_index": 0}
PCM = {"type": "audio/pcm", "rate": 24000}
VAD = {"type": "server_vad", "threshold": 0.4, "prefix_padding_ms": 200, "silence_duration_ms": 400}
TOOL = {"type": "function", "name": "weather", "description": "Tells it.", "parameters": {"type": "object"}}
USAGE = {"total_tokens": 30, "input_tokens": 10, "output_tokens": 20, "input_token_details": {"cached_tokens": 4}}

SESSION_BETA: Event = {
    "modalities": ["text", "audio"],
    "instructions": "Be kind.",
    "voice": "alloy",
    "input_audio_format": "pcm16",
    "output_audio_format": "g711_ulaw",
    "input_audio_transcription": {"model": "whisper-1"},
    "input_audio_noise_reduction": {"type": "near_field"},
    "turn_detection": VAD,
    "speed": 1.2,
    "tools": [TOOL],
    "tool_choice": "auto",
    "max_response_output_tokens": 512,
}
SESSION_CURRENT: Event = {
    "type": "realtime",
    "output_modalities": ["audio"],
    "instructions": "Be kind.",
    "audio": {
        "input": {
            "format": PCM,
            "transcription": {"model": "whisper-1"},
            "noise_reduction": {"type": "near_field"},
            "turn_detection": VAD,
        },
        "output": {"format": {"type": "audio/pcmu"}, "voice": "alloy", "speed": 1.2},
    },
    "tools": [TOOL],
    "tool_choice": "auto",
    "max_output_tokens": 512,
}
LISTENING_BETA: Event = {
    "input_audio_format": "g711_alaw",
    "input_audio_transcription": {"model": "whisper-1"},
    "turn_detection": None,
}
LISTENING_CURRENT: Event = {
    "type": "transcription",
    "audio": {
        "input": {"format": {"type": "audio/pcma"}, "transcription": {"model": "whisper-1"}, "turn_detection": None}
    },
}


def message(role: str, *content: Event, **members: Any) -> Event:
    return {"id": "item_1", "type": "message", "role": role, "content": list(content), **members}


SAID_BETA = message("assistant", {"type": "text", "text": "Hi"}, {"type": "audio", "transcript": "Hi"})
SAID_CURRENT = message("assistant", {"type": "output_text", "text": "Hi"}, {"type": "output_audio", "transcript": "Hi"})
ASKED = message("user", {"type": "input_text", "text": "Hello"}, {"type": "input_audio", "audio": "AAA="})
CALL = {"id": "item_2", "type": "function_call", "call_id": "call_1", "name": "weather", "arguments": "{}"}
GAVE = {"id": "item_3", "type": "function_call_output", "call_id": "call_1", "output": "sun"}

RESPONSE_BETA: Event = {
    "id": "resp_1",
    "object": "realtime.response",
    "status": "completed",
    "modalities": ["text", "audio"],
    "voice": "alloy",
    "output_audio_format": "pcm16",
    "max_output_tokens": "inf",
    "output": [SAID_BETA, CALL],
    "usage": USAGE,
}
RESPONSE_CURRENT: Event = {
    "id": "resp_1",
    "object": "realtime.response",
    "status": "completed",
    "output_modalities": ["audio"],
    "audio": {"output": {"voice": "alloy", "format": PCM}},
    "max_output_tokens": "inf",
    "output": [SAID_CURRENT, CALL],
    "usage": USAGE,
}

CLIENT: list[Pair] = [
    Pair(client("session.update", session=SESSION_BETA), [client("session.update", session=SESSION_CURRENT)]),
    Pair(
        client(
            "transcription_session.update",
            session={**LISTENING_BETA, "include": ["item.input_audio_transcription.logprobs"]},
        ),
        [
            client(
                "session.update", session={**LISTENING_CURRENT, "include": ["item.input_audio_transcription.logprobs"]}
            )
        ],
    ),
    same(client("input_audio_buffer.append", audio="AAA=")),
    same(client("input_audio_buffer.commit")),
    same(client("input_audio_buffer.clear")),
    same(client("output_audio_buffer.clear")),
    Pair(
        client("conversation.item.create", item=SAID_BETA, previous_item_id="root"),
        [client("conversation.item.create", item=SAID_CURRENT, previous_item_id="root")],
    ),
    same(client("conversation.item.create", item=ASKED)),
    same(client("conversation.item.create", item=GAVE)),
    same(client("conversation.item.delete", item_id="item_1")),
    same(client("conversation.item.retrieve", item_id="item_1")),
    same(client("conversation.item.truncate", item_id="item_1", content_index=0, audio_end_ms=1500)),
    same(client("response.cancel", response_id="resp_1")),
    same(client("response.create")),
    Pair(
        client(
            "response.create",
            response={
                "modalities": ["text"],
                "voice": "echo",
                "output_audio_format": "pcm16",
                "max_response_output_tokens": 9,
                "input": [message("assistant", {"type": "text", "text": "Hi"}), ASKED],
                "instructions": "Now.",
            },
        ),
        [
            client(
                "response.create",
                response={
                    "output_modalities": ["text"],
                    "audio": {"output": {"voice": "echo", "format": PCM}},
                    "max_output_tokens": 9,
                    "input": [message("assistant", {"type": "output_text", "text": "Hi"}), ASKED],
                    "instructions": "Now.",
                },
            )
        ],
    ),
]


def renamed(beta: str, current: str, **members: Any) -> Pair:
    return Pair(server(beta, **PLACE, **members), [server(current, **PLACE, **members)])


def item_pair(kind: str, **members: Any) -> Pair:
    return Pair(server(kind, item=SAID_BETA, **members), [server(kind, item=SAID_CURRENT, **members)])


TRANSCRIBED = {"item_id": "item_1", "content_index": 0}
OUTPUT = {"response_id": "resp_1", "output_index": 0}
ARGUMENTS = {**OUTPUT, "item_id": "item_2", "call_id": "call_1"}
HEARD = "conversation.item.input_audio_transcription"

SERVER: list[Pair] = [
    *(
        Pair(
            server(f"session.{word}", session={"id": "sess_1", **SESSION_BETA}),
            [server(f"session.{word}", session={"id": "sess_1", **SESSION_CURRENT})],
        )
        for word in ("created", "updated")
    ),
    Pair(
        server("transcription_session.updated", session=LISTENING_BETA),
        [server("session.updated", session=LISTENING_CURRENT)],
    ),
    Pair(
        server("conversation.item.created", item=ASKED, previous_item_id="item_0"),
        [
            server("conversation.item.added", item=ASKED, previous_item_id="item_0"),
            {**server("conversation.item.done", item=ASKED, previous_item_id="item_0"), "event_id": "event_1_done"},
        ],
    ),
    Pair(
        server("conversation.item.created", item=message("assistant", status="in_progress")),
        [server("conversation.item.added", item=message("assistant", status="in_progress"))],
    ),
    item_pair("conversation.item.retrieved"),
    item_pair("response.output_item.added", **OUTPUT),
    item_pair("response.output_item.done", **OUTPUT),
    Pair(server("response.created", response=RESPONSE_BETA), [server("response.created", response=RESPONSE_CURRENT)]),
    Pair(server("response.done", response=RESPONSE_BETA), [server("response.done", response=RESPONSE_CURRENT)]),
    renamed("response.audio.delta", "response.output_audio.delta", delta="AAA="),
    renamed("response.audio.done", "response.output_audio.done"),
    renamed("response.audio_transcript.delta", "response.output_audio_transcript.delta", delta="Hi"),
    renamed("response.audio_transcript.done", "response.output_audio_transcript.done", transcript="Hi"),
    renamed("response.text.delta", "response.output_text.delta", delta="Hi"),
    renamed("response.text.done", "response.output_text.done", text="Hi"),
    same(server("response.content_part.added", **PLACE, part={"type": "audio", "transcript": ""})),
    same(server("response.content_part.done", **PLACE, part={"type": "text", "text": "Hi"})),
    same(server("response.function_call_arguments.delta", **ARGUMENTS, delta="{")),
    same(server("response.function_call_arguments.done", **ARGUMENTS, arguments="{}", name="weather")),
    same(server("conversation.created", conversation={"id": "conv_1", "object": "realtime.conversation"})),
    same(server("conversation.item.deleted", item_id="item_1")),
    same(server("conversation.item.truncated", item_id="item_1", content_index=0, audio_end_ms=10)),
    same(server(f"{HEARD}.completed", **TRANSCRIBED, transcript="Hi", usage={"type": "duration", "seconds": 1.5})),
    same(server(f"{HEARD}.delta", **TRANSCRIBED, delta="H")),
    same(server(f"{HEARD}.failed", **TRANSCRIBED, error={"message": "Too quiet."})),
    same(server("input_audio_buffer.cleared")),
    same(server("input_audio_buffer.committed", item_id="item_1", previous_item_id=None)),
    same(server("input_audio_buffer.speech_started", item_id="item_1", audio_start_ms=100)),
    same(server("input_audio_buffer.speech_stopped", item_id="item_1", audio_end_ms=900)),
    same(server("output_audio_buffer.started", response_id="resp_1")),
    same(server("output_audio_buffer.stopped", response_id="resp_1")),
    same(server("output_audio_buffer.cleared", response_id="resp_1")),
    same(server("rate_limits.updated", rate_limits=[{"name": "requests", "limit": 9, "remaining": 8}])),
    same(server("error", error={"type": "invalid_request_error", "message": "No.", "code": "c", "param": "p"})),
]
"""Server events that both dialects have."""

CURRENT_ONLY: list[Event] = [
    {"type": "input_audio_buffer.dtmf_event_received", "event": "9", "received_at": 1},
    server("input_audio_buffer.timeout_triggered", item_id="item_1", audio_start_ms=1, audio_end_ms=2),
    server(f"{HEARD}.segment", **TRANSCRIBED, id="seg_1", start=0.0, end=1.0, speaker="a", text="Hi"),
    server("mcp_list_tools.in_progress", item_id="item_1"),
    server("mcp_list_tools.completed", item_id="item_1"),
    server("mcp_list_tools.failed", item_id="item_1"),
    server("response.mcp_call_arguments.delta", **OUTPUT, item_id="item_1", delta="{"),
    server("response.mcp_call_arguments.done", **OUTPUT, item_id="item_1", arguments="{}"),
    server("response.mcp_call.in_progress", output_index=0, item_id="item_1"),
    server("response.mcp_call.completed", output_index=0, item_id="item_1"),
    server("response.mcp_call.failed", output_index=0, item_id="item_1"),
]
"""Server events that the beta dialect does not know; they pass as they come."""
