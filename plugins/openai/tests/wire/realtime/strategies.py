"""Events of either dialect for property tests: anything at all, and what clients and servers really send."""

from __future__ import annotations

import string
from typing import Any

from hypothesis import strategies as st

from plugins.openai.tests.wire.realtime.golden import CLIENT, CURRENT_ONLY, SERVER, Event

WORDS = st.text(string.ascii_letters + ' .äß"\\/\n', max_size=8)
SCALARS = (
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False) | WORDS
)

NAMES = st.sampled_from(
    sorted(
        {"type", "event_id", "session", "response", "item", "part", "role", "content", "status", "id", "audio", "input"}
        | {"output", "format", "rate", "voice", "modalities", "output_modalities", "turn_detection", "tools", "delta"}
        | {"input_audio_format", "max_output_tokens", "max_response_output_tokens", "speed", "temperature", "usage"}
        | {"item_id", "name", "previous_item_id", "tool_choice", "include", "prompt"}
    )
)
VALUES = st.sampled_from(
    [
        *("realtime", "transcription", "text", "audio", "output_text", "message", "user", "assistant", "in_progress"),
        *("pcm16", "audio/pcm", "server_vad", "inf", "function_call", "item_1", "input_text", "input_audio"),
    ]
)
JSON = st.recursive(
    SCALARS | VALUES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES | WORDS, inner, max_size=5),
    max_leaves=20,
)

KINDS = st.sampled_from(
    sorted({pair.beta["type"] for pair in [*CLIENT, *SERVER]})
    + sorted({event["type"] for pair in [*CLIENT, *SERVER] for event in pair.current})
    + sorted({event["type"] for event in CURRENT_ONLY})
)
ANY_EVENT: st.SearchStrategy[Event] = st.builds(
    lambda kind, members: {**members, "type": kind}, KINDS | JSON, st.dictionaries(NAMES, JSON, max_size=6)
)
"""Objects with the names that matter and anything as their values."""

BROKEN = st.sampled_from([event for pair in [*CLIENT, *SERVER] for event in (pair.beta, *pair.current)])


@st.composite
def mended(draw: st.DrawFn) -> Event:
    """A good event with one member, at any depth, replaced by anything."""
    event = draw(BROKEN)
    value: Any = draw(JSON)
    return _replaced(draw, event, value)


def _replaced(draw: st.DrawFn, where: Any, value: Any) -> Any:
    if isinstance(where, dict) and where:
        name = draw(st.sampled_from(sorted(where)))
        deeper = draw(st.booleans()) and isinstance(where[name], (dict, list))
        return {**where, name: _replaced(draw, where[name], value) if deeper else value}
    if isinstance(where, list) and where:
        return [_replaced(draw, where[0], value), *where[1:]]
    return value


FORMATS = st.sampled_from(["pcm16", "g711_ulaw", "g711_alaw"])
TURNS = st.none() | st.fixed_dictionaries(
    {"type": st.sampled_from(["server_vad", "semantic_vad"])},
    optional={
        "threshold": st.floats(0, 1),
        "create_response": st.booleans(),
        "silence_duration_ms": st.integers(0, 900),
    },
)
BETA_SESSIONS = st.fixed_dictionaries(
    {},
    optional={
        "modalities": st.sampled_from([["text"], ["text", "audio"], ["audio", "text"]]),
        "instructions": WORDS,
        "voice": st.sampled_from(["alloy", "echo"]),
        "speed": st.floats(0.25, 1.5),
        "input_audio_format": FORMATS,
        "output_audio_format": FORMATS,
        "turn_detection": TURNS,
        "input_audio_transcription": st.none() | st.just({"model": "whisper-1", "language": "de"}),
        "input_audio_noise_reduction": st.none() | st.just({"type": "far_field"}),
        "max_response_output_tokens": st.just("inf") | st.integers(1, 4096),
        "tools": st.just([{"type": "function", "name": "f", "parameters": {}}]),
        "tool_choice": st.sampled_from(["auto", "none", {"type": "function", "name": "f"}]),
        "x_unknown": JSON,
    },
)
