"""Checks of the limits of a model's family, from the table `openai_images.families`, for bodies that were checked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from tornado_gate.codec.checks import raise_invalid, refuse_value
from tornado_gate.codec.fields import format_choices
from tornado_gate.errors import InvalidField
from tornado_gate.types import Call
from tornado_gate_openai.format.dialect import is_contract_caller
from tornado_gate_openai.wire.images import ModelFamily, describe_owners

_TRANSPARENT_FORMATS: Final = ("png", "webp")
_COMPRESSED_FORMATS: Final = ("jpeg", "webp")


CONTRACT_FIELDS: Final = frozenset(
    ("model", "prompt", "n", "size", "background", "moderation", "quality", "stream", "style", "user")
)
"""The fields of a body with ``prompt`` in the contract."""

_CONTRACT_WORDS: Final[Mapping[str, tuple[str, ...]]] = {
    "background": ("transparent", "opaque", "auto"),
    "moderation": ("low", "auto"),
}


def check_contract_words(call: Call, body: Mapping[str, Any]) -> None:
    """Raise InvalidField for a word that the contract lacks, in a checked body of a caller of the contract."""
    for name, words in _CONTRACT_WORDS.items():
        word = body.get(name)
        if word is not None and word not in words and is_contract_caller(call, body, CONTRACT_FIELDS):
            raise_invalid(name, f"must be one of {format_choices(words)}, not '{word[:50]}'")


def check_rules(family: ModelFamily, body: Mapping[str, Any]) -> None:
    """Check a body with ``prompt``. Raises InvalidField for the first field that the family does not allow.

    The limits that the contract shows (prompt, n, size, fields of family three) hold on both lanes.
    """
    for name in family.unsupported_fields:
        if body.get(name) is not None:
            message = f"'{name}' is supported only by models of {describe_owners(name)}; this model is of family {family.name}."
            raise InvalidField(name, message, code="unsupported_parameter")
    _check_prompt(family, len(body["prompt"]), "prompt")
    _check_n(family, body.get("n"), "n")
    _check_size(family, body.get("size"), "size")
    _check_word(family, "quality", body.get("quality"), family.qualities)
    _check_word(family, "style", body.get("style"), family.styles)
    _check_word(family, "output_format", body.get("output_format"), family.formats)
    _check_format(body)


def check_input_rules(family: ModelFamily, body: Mapping[str, Any]) -> None:
    """Check a body with ``input`` and ``parameters`` against the same limits. Raises InvalidField."""
    messages, parameters = body["input"]["messages"], body.get("parameters") or {}
    texts = [item["text"] for message in messages for item in message["content"] if item.get("text") is not None]
    _check_prompt(family, len("\n".join(texts)), "input.messages")
    _check_n(family, parameters.get("n"), "parameters.n")
    size = parameters.get("size")
    if size is not None and not (family.name == "" and size.upper() in ("1K", "2K", "4K")):
        sides = size.replace("*", "x") if "x" not in size and "*" in size else ""
        _check_size(family, sides, "parameters.size", "*", size)


def _check_prompt(family: ModelFamily, length: int, param: str) -> None:
    if length > family.max_prompt_length:
        message = f"'{param}' has {length} characters; {_describe_family(family)} accepts {family.max_prompt_length}."
        raise InvalidField(param, message, code="string_above_max_length")


def _check_n(family: ModelFamily, n: int | None, param: str) -> None:
    if n is not None and not 1 <= n <= family.max_images:
        few = "1" if family.max_images == 1 else f"1 to {family.max_images}"
        raise_invalid(param, f"must be {few} for {_describe_family(family)}, not {n}")


def _check_size(
    family: ModelFamily, size: str | None, param: str, times: str = "x", size_text: str | None = None
) -> None:
    if size is not None and not family.takes_size(size):
        shown = (size if size_text is None else size_text)[:50]
        raise_invalid(param, f"must be {family.describe_sizes(times)} for {_describe_family(family)}, not '{shown}'")


def _check_word(family: ModelFamily, name: str, word: str | None, words: tuple[str, ...] | None) -> None:
    if word is not None and words is not None and word not in words:
        refuse_value(name, f"must be {format_choices(words)} for {_describe_family(family)}, not '{word[:50]}'")


def _check_format(body: Mapping[str, Any]) -> None:
    """Check the fields that depend on ``output_format``, whose default is PNG."""
    kind = body.get("output_format") or "png"
    if body.get("background") == "transparent" and kind not in (*_TRANSPARENT_FORMATS, "gif", "svg"):
        raise_invalid(
            "background",
            f"can be 'transparent' only if 'output_format' is {format_choices(_TRANSPARENT_FORMATS)}, not '{kind}'",
        )
    if body.get("output_compression") not in (None, 100) and kind not in _COMPRESSED_FORMATS:
        refuse_value(
            "output_compression",
            f"below 100 requires 'output_format' to be {format_choices(_COMPRESSED_FORMATS)}, not '{kind}'",
        )


def _describe_family(family: ModelFamily) -> str:
    return f"a model of image family {family.name}" if family.name else "this model"
