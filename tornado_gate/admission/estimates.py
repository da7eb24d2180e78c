"""Estimates of what a request may use, before it is sent: its prompt, and the longest answer that it allows or a usual one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from tornado_gate.codec.text_lengths import count_characters
from tornado_gate.ledger.estimates import CHARACTERS_PER_TOKEN
from tornado_gate.types import Call, Route, WireRequest
from tornado_gate.types.quantities import Quantities
from tornado_gate.types.value import Value, replace

USUAL_ANSWER_TOKENS: Final = 1000
"""The estimate for an answer whose request does not limit it, until the model has answered."""
LEARNING_RATE: Final = 0.125
MOST_DIGITS: Final = 10
"""A longer number of answers in a form is none."""
USUAL_VIDEO_SECONDS: Final = 5.0
"""The estimate for a video whose request does not say how long it is."""
OPEN_OPERATIONS: Final = frozenset({"chat", "images", "image_edits", "speech", "transcription"})
"""Operations whose answers have a length that differs by the model, and is learned."""
CHARGED_UNITS: Final = frozenset({"images", "image_edits", "speech"})
"""Operations whose answers are priced by images or characters, of which the request says how many it asks for."""
CHARGED_PROMPTS: Final = CHARGED_UNITS | {"chat", "embeddings", "moderation", "transcription"}
"""Operations whose prompt is charged as soon as an upstream has it. Counting tokens is free; a video is charged by its task."""


class Estimate(Value, frozen=True):
    """What a request may use. `is_open`: its answer is not limited, so that the usual one of its model is added.

    `usual_seconds` are those of a video whose request does not say them.
    """

    quantities: Quantities
    is_open: bool = False
    usual_seconds: float = 0.0

    def list_quantities(self, usual: int) -> tuple[Quantities, Quantities]:
        """What the request uses at least, and what it will probably use, with `usual` tokens of an answer."""
        least = self.quantities
        if self.usual_seconds:
            return least, replace(least, seconds=self.usual_seconds)
        return least, replace(least, output_tokens=usual) if self.is_open else least


USUAL_ANSWER: Final = Estimate(Quantities(input_tokens=0, output_tokens=0), is_open=True)
"""The estimate for realtime sessions and calls between models."""


class UsualAnswers:
    """How long the answers of each model entry are, in tokens: a moving average of those that this process has seen."""

    def __init__(self) -> None:
        self._tokens: dict[str, float] = {}

    def find(self, model: str) -> int:
        return round(self._tokens.get(model, USUAL_ANSWER_TOKENS))

    def learn(self, model: str, tokens: int) -> None:
        """Note the length of an answer of a model of conf."""
        before = self._tokens.get(model)
        self._tokens[model] = tokens if before is None else before + LEARNING_RATE * (tokens - before)

    def forget_others(self, models: Mapping[str, Any]) -> None:
        """Keep the models of a configuration only."""
        self._tokens = {name: tokens for name, tokens in self._tokens.items() if name in models}


def estimate_request(operation: str, route: Route, body: Mapping[str, Any], prompt_tokens: int) -> Estimate:
    """What a request may use: its prompt and its answers; the images or the text that it asks for."""
    asked, is_open = Quantities(input_tokens=prompt_tokens, output_tokens=0), operation in OPEN_OPERATIONS
    if operation == "chat" and (answer := _find_answer_tokens(route, body)) is not None:
        asked, is_open = replace(asked, output_tokens=answer), False
    elif operation in ("images", "image_edits"):
        size, quality = (text if isinstance(text := body.get(name), str) else "" for name in ("size", "quality"))
        asked = replace(asked, images=_read_count(body.get("n")), size=size, quality=quality)
    elif operation == "speech":
        text = body.get("input")
        asked = replace(asked, characters=len(text) if isinstance(text, str) else CHARACTERS_PER_TOKEN * prompt_tokens)
    return Estimate(asked, is_open)


def _read_count(value: Any) -> int:
    """A number of answers, which is a text in a form; 1 for what is none."""
    if isinstance(value, str) and value.isdecimal() and len(value) < MOST_DIGITS:
        value = int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 1


def _find_answer_tokens(route: Route, body: Mapping[str, Any]) -> int | None:
    """The limit of the tokens of all answers together; None without one."""
    for place in route.answer_limits:
        limit = _read_place(body, place)
        if isinstance(limit, int) and not isinstance(limit, bool) and limit >= 0:
            return limit * max([_read_count(_read_place(body, count)) for count in route.answer_counts], default=1)
    return None


def _read_place(body: Mapping[str, Any], place: str) -> Any:
    """The value at a place such as ``generationConfig.maxOutputTokens``; None without one."""
    value: Any = body
    for name in place.split("."):
        value = value.get(name) if isinstance(value, Mapping) else None
    return value


def get_counted_body(wire: WireRequest) -> Any:
    """What `estimate_prompt_tokens` counts of a request: its JSON, or a body that is none as a text."""
    return wire.raw.decode("utf-8", "replace") if wire.plain else wire.json


def estimate_wire_tokens(wire: WireRequest) -> int:
    """An estimate of the tokens of a caller's request."""
    return estimate_prompt_tokens(get_counted_body(wire))


def estimate_prompt_tokens(value: Any) -> int:
    """An estimate of the tokens of a JSON body: the length of its texts; a file in base64 counts as 1,000 tokens."""
    return count_characters(value) // CHARACTERS_PER_TOKEN


class PromptEstimate:
    """The tokens of a caller's prompt, counted when they are asked for and once. `tokens`: those already known."""

    __slots__ = ("_tokens", "_wire")

    def __init__(self, wire: WireRequest, tokens: int | None = None) -> None:
        self._wire: WireRequest | None = wire if tokens is None else None  # it holds the body
        self._tokens = tokens or 0

    def __call__(self) -> int:
        wire = self._wire
        if wire is not None:
            self._tokens = estimate_wire_tokens(wire)
            self._wire = None
        return self._tokens


def begin_charge(call: Call, wire: WireRequest, tokens: int | None) -> None:
    """Prepare a request for the case that its upstream does not report what it used.

    `tokens` are those of the prompt, if they are already known.
    """
    operation, units = call.operation, None
    if operation not in CHARGED_PROMPTS:
        return
    if operation in CHARGED_UNITS:
        units = estimate_request(operation, wire.route, wire.json, tokens or 0).quantities
    call.meter.measure_text(is_measured=operation == "chat")
    call.charge.expect(PromptEstimate(wire, tokens), units)
