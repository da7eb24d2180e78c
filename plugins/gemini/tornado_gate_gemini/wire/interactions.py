"""Gemini's Interactions API: usage, ends and ids of interactions that the verbatim lane forwards unchanged. Pure.

A stream has server-sent events with an ``event_type``: ``interaction.created``, ``step.start``, ``step.delta``, ``step.stop``,
``interaction.status_update``, ``interaction.completed`` or ``error``, and ends with ``[DONE]``. Quotation marks inside JSON
strings are escaped, so text written by a model cannot match a member's name.

Source: google-genai 3.4, _gaos/interactions.py and _gaos/types/interactions/ (interaction, usage, interactionsseevent); read
2026-11-22.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from tornado_gate.errors import GateError
from tornado_gate.streams import sse
from tornado_gate.types import FinishReason, IssuedObjects, Meter, Usage
from tornado_gate.wire.schemas import wrong_format_error
from tornado_gate_gemini.wire import formats
from tornado_gate_gemini.wire.generate import find_error
from tornado_gate_gemini.wire.generate.json_values import read_count, read_objects

WIRE_FORMAT: Final = formats.GEMINI_INTERACTIONS
PATH: Final = "/interactions"

_REASONS: Final[Mapping[str, FinishReason]] = {
    "completed": "stop",
    "requires_action": "tool_calls",
    "incomplete": "length",
    "budget_exceeded": "length",
    "requires_continuation": "length",
    "failed": "error",
    "cancelled": "other",
}
"""By the status of an interaction that has ended."""
_UNFINISHED: Final = frozenset(("queued", "in_progress"))
_DONE: Final = b"[DONE]"
_COUNTS: Final = ("total_input_tokens", "total_output_tokens", "total_thought_tokens", "total_cached_tokens")


def is_unfinished(interaction: Mapping[str, Any]) -> bool:
    """Return whether an interaction goes on in the background. Its usage is not known yet."""
    return interaction.get("status") in _UNFINISHED


def parse_usage(value: Any) -> Usage | None:
    """The usage of an interaction; None for a value without token counts. Thoughts are not in ``total_output_tokens``."""
    if not isinstance(value, Mapping):
        return None
    prompt, output, thoughts, cached = (read_count(value.get(name)) for name in _COUNTS)
    if prompt is None and output is None and thoughts is None:
        return None
    produced = None if output is None and thoughts is None else (output or 0) + (thoughts or 0)
    return Usage(input_tokens=prompt, output_tokens=produced, cache_read_tokens=cached, reasoning_tokens=thoughts)


def note_interaction(meter: Meter, interaction: Mapping[str, Any]) -> None:
    """Note usage and finish reason of an interaction."""
    meter.record_usage(parse_usage(interaction.get("usage")))
    status = interaction.get("status")
    if isinstance(status, str) and status not in _UNFINISHED:
        meter.record_finish(_REASONS.get(status, "other"))


def note_body(meter: Meter, body: Any) -> None:
    """Note usage and finish reason of a whole body. Raises the error in the body, or UpstreamError for a wrong shape."""
    if (error := find_error(body)) is not None:
        raise error
    if not isinstance(body, Mapping) or not isinstance(body.get("status"), str):
        raise wrong_format_error()
    note_interaction(meter, body)
    meter.add_images(sum(map(_count_images, read_objects(body.get("steps")))))


def _count_images(step: Mapping[str, Any]) -> int:
    """The pictures in a step of the model (google-genai 3.4, _gaos/types/interactions/modeloutputstep.py)."""
    content = read_objects(step.get("content")) if step.get("type") == "model_output" else ()
    return sum(part.get("type") == "image" for part in content)


def note_issued(issued: IssuedObjects, interaction: Mapping[str, Any], *, stored: bool, background: bool) -> None:
    """Note what the upstream keeps: the interaction if it is `stored`, and its sandbox.

    They are due with the last state. An interaction that goes on in the background has them immediately, because it continues
    without its caller.
    """
    ids = [
        ("interaction", interaction.get("id") if stored else None),
        ("environment", interaction.get("environment_id")),
    ]
    issued.ids += [
        (kind, name) for kind, name in ids if isinstance(name, str) and name and (kind, name) not in issued.ids
    ]
    unfinished = is_unfinished(interaction)
    issued.due = background or not unfinished
    issued.unmetered = background and unfinished


class InteractionsStreamMeter:
    """The meter of one stream's raw frames. It notes usage and finish reason on `meter`.

    `finished` is True after the end of the interaction, `done` after the end mark or an error. `issued` receives what the
    upstream keeps.
    """

    def __init__(
        self, meter: Meter, issued: IssuedObjects | None = None, *, stored: bool = False, background: bool = False
    ) -> None:
        self._meter = meter
        self._issued = issued
        self._stored = stored
        self._background = background
        self.finished = False
        self.done = False

    def note(self, raw: bytes) -> bool:
        """Note one frame. Always returns False: no frame is hidden from the caller."""
        if _DONE in raw and raw.rstrip().endswith(_DONE):
            self.done = True
        elif isinstance(body := sse.parse_json(raw), Mapping):
            self._note_event(body)
        return False

    def _note_event(self, event: Mapping[str, Any]) -> None:
        interaction = event.get("interaction")
        if isinstance(interaction, Mapping):
            note_interaction(self._meter, interaction)
            if self._issued is not None:
                note_issued(self._issued, interaction, stored=self._stored, background=self._background)
        elif event.get("event_type") == "interaction.status_update":
            note_interaction(self._meter, event)
        elif parse_error(event) is not None:
            self.done = True
            return
        self.finished = self.finished or event.get("event_type") == "interaction.completed"


def is_quiet(frames: bytes) -> bool:
    """Return whether frames certainly contain neither an event about the whole interaction, nor an error, nor the end mark."""
    return b'"interaction.' not in frames and b'"error"' not in frames and _DONE not in frames


def parse_error(event: Any) -> GateError | None:
    """The error that an event represents, or None. An error inside a step ends that step only."""
    if not isinstance(event, Mapping) or event.get("event_type") not in (None, "error"):
        return None
    return find_error(dict(event))


def render_error_event(error: GateError) -> dict[str, Any]:
    """The event that ends an interrupted stream."""
    return {"event_type": "error", "error": {"code": error.code, "message": error.message}}
