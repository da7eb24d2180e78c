"""What a model's family allows of a body that was checked: the rows of `openai_images.families` applied."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from tornado_gate.codec.checks import wrong
from tornado_gate.codec.fields import listed
from tornado_gate.errors import InvalidField
from tornado_gate.wire.openai_images import Family, owners

_TRANSPARENT: Final = ("png", "webp")
_COMPRESSED: Final = ("jpeg", "webp")


def check_rules(family: Family, body: Mapping[str, Any]) -> None:
    """A body of the vendor's shape. Raises InvalidField for the first field that the family does not allow."""
    for name in family.lacks:
        if body.get(name) is not None:
            message = f"'{name}' is only for models of {owners(name)}; this model is of family {family.name}."
            raise InvalidField(name, message, code="unsupported_parameter")
    _check_prompt(family, len(body["prompt"]), "prompt")
    _check_n(family, body.get("n"), "n")
    _check_size(family, body.get("size"), "size")
    _check_word(family, "quality", body.get("quality"), family.qualities)
    _check_word(family, "style", body.get("style"), family.styles)
    _check_word(family, "output_format", body.get("output_format"), family.formats)
    _check_format(body)


def check_input_rules(family: Family, body: Mapping[str, Any]) -> None:
    """A body with ``input`` and ``parameters``, of which the same rules hold."""
    messages, parameters = body["input"]["messages"], body.get("parameters") or {}
    texts = [item["text"] for message in messages for item in message["content"] if item.get("text") is not None]
    _check_prompt(family, len("\n".join(texts)), "input.messages")
    _check_n(family, parameters.get("n"), "parameters.n")
    size = parameters.get("size")
    if size is not None and not (family.name == "" and size.upper() in ("1K", "2K", "4K")):
        sides = size.replace("*", "x") if "x" not in size and "*" in size else ""
        _check_size(family, sides, "parameters.size", "*", size)


def _check_prompt(family: Family, length: int, param: str) -> None:
    if length > family.longest_prompt:
        message = f"'{param}' is {length} characters long; {_whose(family)} takes {family.longest_prompt}."
        raise InvalidField(param, message, code="string_above_max_length")


def _check_n(family: Family, n: int | None, param: str) -> None:
    if n is not None and n > family.most_images:
        few = "only 1" if family.most_images == 1 else f"1 to {family.most_images}"
        wrong(param, f"is {n}; {_whose(family)} makes {few}")


def _check_size(family: Family, size: str | None, param: str, times: str = "x", said: str | None = None) -> None:
    if size is not None and not family.takes_size(size):
        shown = (size if said is None else said)[:50]
        wrong(param, f"must be {family.allowed_sizes(times)} for {_whose(family)}, not '{shown}'")


def _check_word(family: Family, name: str, word: str | None, words: tuple[str, ...] | None) -> None:
    if word is not None and words is not None and word not in words:
        wrong(name, f"must be {listed(words)} for {_whose(family)}, not '{word[:50]}'")


def _check_format(body: Mapping[str, Any]) -> None:
    """What must agree with the kind of file, which is PNG unless said."""
    kind = body.get("output_format") or "png"
    if body.get("background") == "transparent" and kind not in (*_TRANSPARENT, "gif", "svg"):
        wrong("background", f"can be 'transparent' only where 'output_format' is {listed(_TRANSPARENT)}, not '{kind}'")
    if body.get("output_compression") not in (None, 100) and kind not in _COMPRESSED:
        wrong("output_compression", f"below 100 needs 'output_format' to be {listed(_COMPRESSED)}, not '{kind}'")


def _whose(family: Family) -> str:
    return f"a model of image family {family.name}" if family.name else "this model"
