"""Estimates of what a request may use, before it is sent: its prompt, and the longest answer that it allows or a usual one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from tornado_gate.ledger.costs import Quantities
from tornado_gate.ledger.estimates import CHARACTERS_PER_TOKEN
from tornado_gate.types import WireRequest
from tornado_gate.types.value import Value, replace

USUAL_ANSWER_TOKENS: Final = 1000
"""The estimate for an answer whose request does not limit it, until the model has answered."""
LEARNING_RATE: Final = 0.125
ANSWER_LIMITS: Final = ("max_tokens", "max_completion_tokens", "max_output_tokens", "maxOutputTokens")
"""The names of the limit in bodies of all formats."""
FILE_CHARACTERS: Final = 2048
"""A longer text whose beginning of this length has no space is a file in base64."""
FILE_TOKENS: Final = 1000


class Estimate(Value, frozen=True):
    """What a request may use. `is_open`: its answer is not limited, so that the usual one of its model is added."""

    quantities: Quantities
    is_open: bool = False

    def list_quantities(self, usual: int) -> tuple[Quantities, Quantities]:
        """What the request uses at least, and what it will probably use, with `usual` tokens of an answer."""
        if not self.is_open:
            return self.quantities, self.quantities
        return self.quantities, replace(self.quantities, output_tokens=usual)


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


def estimate_request(operation: str, body: Mapping[str, Any], prompt_tokens: int) -> Estimate:
    """What a request may use: its prompt and its answer; the images or the text that it asks for."""
    count = body.get("n")
    if operation in ("images", "image_edits"):
        images = count if isinstance(count, int) and not isinstance(count, bool) else 1
        return Estimate(Quantities(input_tokens=prompt_tokens, output_tokens=0, images=images))
    if operation == "speech":
        text = body.get("input")
        characters = len(text) if isinstance(text, str) else CHARACTERS_PER_TOKEN * prompt_tokens
        return Estimate(Quantities(input_tokens=prompt_tokens, output_tokens=0, characters=characters))
    if operation != "chat":
        return Estimate(Quantities(input_tokens=prompt_tokens, output_tokens=0))
    answer = _find_answer_tokens(body)
    return Estimate(Quantities(input_tokens=prompt_tokens, output_tokens=answer or 0), is_open=answer is None)


def _find_answer_tokens(body: Mapping[str, Any]) -> int | None:
    """The limit of the answer's tokens in a body of any format; None without one."""
    nested = (body.get("generationConfig"), body.get("generation_config"))
    for place in (body, *(each for each in nested if isinstance(each, Mapping))):
        for name in ANSWER_LIMITS:
            limit = place.get(name)
            if isinstance(limit, int) and not isinstance(limit, bool) and limit >= 0:
                return limit
    return None


def get_counted_body(wire: WireRequest) -> Any:
    """What `estimate_prompt_tokens` counts of a request: its JSON, or a body that is none as a text."""
    return wire.raw.decode("utf-8", "replace") if wire.plain else wire.json


def estimate_wire_tokens(wire: WireRequest) -> int:
    """An estimate of the tokens of a caller's request."""
    return estimate_prompt_tokens(get_counted_body(wire))


def estimate_prompt_tokens(value: Any) -> int:
    """An estimate of the tokens of a JSON body: the length of its texts; a file in base64 counts as FILE_TOKENS."""
    return _estimate_characters(value) // CHARACTERS_PER_TOKEN


def _estimate_characters(value: Any) -> int:
    if isinstance(value, str):
        is_file = len(value) > FILE_CHARACTERS and " " not in value[:FILE_CHARACTERS]
        return FILE_TOKENS * CHARACTERS_PER_TOKEN if is_file else len(value)
    if isinstance(value, Mapping):
        return sum(len(name) + _estimate_characters(member) for name, member in value.items())
    if isinstance(value, list | tuple):
        return sum(map(_estimate_characters, value))
    return 1
