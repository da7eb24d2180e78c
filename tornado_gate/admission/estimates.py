"""Estimates of a request's usage before it is sent: its prompt, and the longest response that it allows or a usual one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from tornado_gate.codec.text_lengths import count_characters
from tornado_gate.ledger.estimates import CHARACTERS_PER_TOKEN
from tornado_gate.types import Call, Charge, Meter, Route, WireRequest
from tornado_gate.types.quantities import Quantities
from tornado_gate.types.value import Value, replace

USUAL_ANSWER_TOKENS: Final = 1000
"""The estimate for a response without a limit, until the first response of the model is known."""
LEARNING_RATE: Final = 0.125
MOST_DIGITS: Final = 10
"""A number of responses with more digits in a form counts as 1."""
USUAL_VIDEO_SECONDS: Final = 5.0
"""The estimate for a video whose request has no duration."""
OPEN_OPERATIONS: Final = frozenset({"chat", "images", "image_edits", "speech", "transcription"})
"""Operations whose usual length of a response is measured for each model."""
CHARGED_UNITS: Final = frozenset({"images", "image_edits", "speech"})
"""Operations that are priced by images or characters. The request contains their number."""
CHARGED_PROMPTS: Final = CHARGED_UNITS | {"chat", "embeddings", "moderation", "transcription"}
"""Operations whose prompt is charged as soon as an upstream has it. Counts of tokens are free; a task charges its video."""


class Estimate(Value, frozen=True):
    """The possible usage of a request. `is_open`: its response has no limit, so the usual length of the model is added.

    `usual_seconds` is the estimated duration of a video whose request has no duration.
    """

    quantities: Quantities
    is_open: bool = False
    usual_seconds: float = 0.0

    def list_quantities(self, usual: int) -> tuple[Quantities, Quantities]:
        """Return the minimum usage, and the probable usage with `usual` tokens of a response."""
        least = self.quantities
        if self.usual_seconds:
            return least, replace(least, seconds=self.usual_seconds)
        return least, replace(least, output_tokens=usual) if self.is_open else least


USUAL_ANSWER: Final = Estimate(Quantities(input_tokens=0, output_tokens=0), is_open=True)
"""The estimate for realtime sessions and calls between models."""


class UsualAnswers:
    """The usual length of the responses of each model entry, in tokens: a moving average of this process's responses."""

    def __init__(self) -> None:
        self._tokens: dict[str, float] = {}

    def get_tokens(self, model: str) -> int:
        """Return the usual number of tokens of a model's response."""
        return round(self._tokens.get(model, USUAL_ANSWER_TOKENS))

    def learn(self, model: str, tokens: int) -> None:
        """Add the length of a response of a model of conf to the average."""
        average = self._tokens.get(model)
        self._tokens[model] = tokens if average is None else average + LEARNING_RATE * (tokens - average)

    def remove_others(self, models: Mapping[str, Any]) -> None:
        """Remove the averages of models that a configuration does not have."""
        self._tokens = {name: tokens for name, tokens in self._tokens.items() if name in models}


def estimate_request(operation: str, route: Route, body: Mapping[str, Any], prompt_tokens: int) -> Estimate:
    """Return the possible usage of a request: its prompt and its responses, or the images or the text that it requests."""
    usage, is_open = Quantities(input_tokens=prompt_tokens, output_tokens=0), operation in OPEN_OPERATIONS
    if operation == "chat" and (limit := _find_token_limit(route, body)) is not None:
        usage, is_open = replace(usage, output_tokens=limit), False
    elif operation in ("images", "image_edits"):
        size, quality = (text if isinstance(text := body.get(name), str) else "" for name in ("size", "quality"))
        usage = replace(usage, images=_read_count(body.get("n")), size=size, quality=quality)
    elif operation == "speech":
        text = body.get("input")
        usage = replace(usage, characters=len(text) if isinstance(text, str) else CHARACTERS_PER_TOKEN * prompt_tokens)
    return Estimate(usage, is_open)


def _read_count(value: Any) -> int:
    """Return a number of responses, which is a text in a form; 1 for any other value."""
    if isinstance(value, str) and value.isdecimal() and len(value) < MOST_DIGITS:
        value = int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 1


def _find_token_limit(route: Route, body: Mapping[str, Any]) -> int | None:
    """Return the limit of the tokens of all responses together, by the members that the route declares; None without one."""
    for path in route.answer_limits:
        limit = _read_member(body, path)
        if isinstance(limit, int) and not isinstance(limit, bool) and limit >= 0:
            return limit * max([_read_count(_read_member(body, path)) for path in route.answer_counts], default=1)
    return None


def _read_member(body: Mapping[str, Any], path: str) -> Any:
    """Return the value at a path, whose names are separated by dots; None without one."""
    value: Any = body
    for name in path.split("."):
        value = value.get(name) if isinstance(value, Mapping) else None
    return value


def get_counted_body(wire: WireRequest) -> Any:
    """Return the counted part of a request for `estimate_prompt_tokens`: its JSON, or another body as a text."""
    return wire.raw.decode("utf-8", "replace") if wire.plain else wire.json


def estimate_wire_tokens(wire: WireRequest) -> int:
    """Estimate the tokens of a caller's request."""
    return estimate_prompt_tokens(get_counted_body(wire))


def estimate_prompt_tokens(value: Any) -> int:
    """Estimate the tokens of a JSON body by the length of its texts. A file in base64 counts as 1,000 tokens."""
    return count_characters(value) // CHARACTERS_PER_TOKEN


class PromptEstimate:
    """The tokens of a caller's prompt, counted once, at the first call. `tokens` is their number if it is already known."""

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


def make_chat_charge(wire: WireRequest) -> tuple[Meter, Charge]:
    """Return the measurements of a chat that `begin_charge` has prepared."""
    return Meter(measures_text=True), Charge(estimate_prompt=PromptEstimate(wire))


def begin_charge(call: Call, wire: WireRequest, tokens: int | None) -> None:
    """Prepare the charge of a request whose upstream may not report its usage.

    `tokens` is the number of tokens of the prompt, if it is already known.
    """
    operation, units = call.operation, None
    if operation not in CHARGED_PROMPTS:
        return
    if operation in CHARGED_UNITS:
        units = estimate_request(operation, wire.route, wire.json, tokens or 0).quantities
    call.meter.measure_text(is_measured=operation == "chat")
    call.charge.expect(PromptEstimate(wire, tokens), units)
