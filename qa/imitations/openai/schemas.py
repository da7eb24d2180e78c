"""Requests checked against openai-python's own types, closed: an unknown field is refused, as the vendor refuses it.

The types of the SDK are generated from the vendor's API description. They are stricter than the API where an SDK always writes
a field, and `OPTIONAL_ON_THE_WIRE` lists those; each has a source.
"""

from __future__ import annotations

import types
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Any, Final, Literal, NoReturn, NotRequired, Required, Union, get_args, get_origin, get_type_hints

import openai
from openai.types.chat import completion_create_params
from openai.types.responses import response_create_params
from typing_extensions import ReadOnly, is_typeddict

from qa.imitations.openai.refusals import Refusal, invalid_type, invalid_value, missing_parameter, unknown_parameter

CHAT: Final = completion_create_params.CompletionCreateParamsNonStreaming
RESPONSES: Final = response_create_params.ResponseCreateParamsNonStreaming

OPTIONAL_ON_THE_WIRE: Final[Mapping[str, frozenset[str]]] = {
    # openai/codex, codex-rs/protocol/src/models.rs: its items have neither id nor status nor annotations
    "ResponseOutputMessageParam": frozenset(("id", "status")),
    "ResponseOutputTextParam": frozenset(("annotations",)),
    "ResponseReasoningItemParam": frozenset(("id",)),
    # developers.openai.com/api/docs/guides/function-calling: examples without strict, which then is true
    "FunctionToolParam": frozenset(("strict", "parameters")),
    # developers.openai.com/api/docs/guides/images-vision: examples without detail ("defaults to auto")
    "ResponseInputImageParam": frozenset(("detail",)),
    "CompletionCreateParamsNonStreaming": frozenset(("stream",)),
    "ResponseCreateParamsNonStreaming": frozenset(("stream",)),
}

ALSO_ACCEPTED: Final[Mapping[str, frozenset[str]]] = {
    # developers.openai.com/api/docs/guides/function-calling appends the answer's message, which has annotations, to the messages
    "ChatCompletionAssistantMessageParam": frozenset(("annotations",)),
    # openai/openai-cookbook, How_to_call_functions_with_chat_models.ipynb: tool messages with the name of the function
    "ChatCompletionToolMessageParam": frozenset(("name",)),
}

_REFUSED_ELSEWHERE: Final = frozenset(("stream",))
_NAMES: Final = {bool: "a boolean", int: "an integer", float: "a decimal", str: "a string"}


def check_schema(kind: Any, body: Any) -> None:
    """Raise Refusal when `body` is not a value of the SDK's type `kind`."""
    _check(kind, body, "")


def _check(kind: Any, value: Any, path: str) -> None:
    origin = get_origin(kind)
    if origin in (Required, NotRequired, ReadOnly):
        _check(get_args(kind)[0], value, path)
    elif is_typeddict(kind):
        _check_members(kind, value, path)
    elif origin in (Union, types.UnionType):
        _check_union(get_args(kind), value, path)
    elif origin is Literal:
        if value not in get_args(kind) or isinstance(value, bool):
            raise invalid_value(path, value, [str(one) for one in get_args(kind)])
    elif origin in (dict, Mapping) or kind is dict:
        _check_mapping(get_args(kind), value, path)
    elif _is_array(kind, origin):
        _check_array(get_args(kind)[0], value, path)
    elif kind not in (Any, object):
        _check_scalar(kind, value, path)


def _is_array(kind: Any, origin: Any) -> bool:
    return origin in (list, Iterable, Sequence) or getattr(origin, "__name__", "") in ("Iterable", "SequenceNotStr")


def _check_mapping(arguments: tuple[Any, ...], value: Any, path: str) -> None:
    if not isinstance(value, dict):
        raise invalid_type(path, "an object", describe(value))
    for name, member in value.items():
        if arguments:
            _check(arguments[1], member, f"{path}.{name}")


def _check_array(kind: Any, value: Any, path: str) -> None:
    if not isinstance(value, list):
        raise invalid_type(path, "an array", describe(value))
    for number, member in enumerate(value):
        _check(kind, member, f"{path}[{number}]")


def _check_scalar(kind: Any, value: Any, path: str) -> None:
    fits = isinstance(value, int | float) if kind is float else isinstance(value, kind)
    if not fits or (isinstance(value, bool) and kind is not bool):
        raise invalid_type(path, _NAMES.get(kind, "null"), describe(value))


def _check_members(kind: Any, value: Any, path: str) -> None:
    if not isinstance(value, dict):
        raise invalid_type(path, "an object", describe(value))
    hints = read_hints(kind)
    inside = f"{path}." if path else ""
    for name, member in value.items():
        if name in ALSO_ACCEPTED.get(kind.__name__, ()):
            continue
        if name not in hints:
            raise unknown_parameter(f"{inside}{name}")
        if name not in _REFUSED_ELSEWHERE:
            _check(hints[name], member, f"{inside}{name}")
    for name in kind.__required_keys__ - OPTIONAL_ON_THE_WIRE.get(kind.__name__, frozenset()):
        if name not in value:
            raise missing_parameter(f"{inside}{name}")


@cache
def read_hints(kind: Any) -> dict[str, Any]:
    return get_type_hints(kind, vars(openai), include_extras=True)


def _check_union(kinds: Sequence[Any], value: Any, path: str) -> None:
    """Check against the member of the union that the value claims to be; all members' errors are about other things."""
    kinds = flatten(kinds)
    if value is None:
        if type(None) in kinds:
            return
        raise invalid_type(path, "an object or a string", "null")
    if isinstance(value, dict):
        objects = [kind for kind in kinds if is_typeddict(kind)]
        return _check_object(objects, value, path) if objects else _try_all(kinds, value, path)
    return _try_all([kind for kind in kinds if not is_typeddict(kind)], value, path)


def flatten(kinds: Sequence[Any]) -> list[Any]:
    flat: list[Any] = []
    for kind in kinds:
        inner = get_origin(kind) in (Union, types.UnionType)
        flat += flatten(get_args(kind)) if inner else [kind]
    return flat


def _try_all(kinds: Sequence[Any], value: Any, path: str) -> None:
    errors: list[Refusal] = []
    for kind in kinds:
        try:
            return _check(kind, value, path)
        except Refusal as error:
            errors.append(error)
    # an array inside a union is reported where it is wrong; scalars are reported as a whole
    deepest = max(errors, key=lambda error: len(error.param or ""), default=None)
    raise deepest or invalid_type(path, "a string", describe(value))


def _check_object(kinds: Sequence[Any], value: Mapping[str, Any], path: str) -> None:
    """Of the types with this ``type`` and ``role``, the first that accepts the value."""
    said = {name: value.get(name) for name in ("type", "role", "mode")}
    candidates = [kind for kind in kinds if all(_may_have(kind, name, word) for name, word in said.items())]
    if not candidates:
        _refuse_type(kinds, value, path)
    _try_all(candidates, value, path)


def _may_have(kind: Any, name: str, word: Any) -> bool:
    """Whether objects of `kind` may have `word` under the discriminating `name`."""
    hint = read_hints(kind).get(name)
    if hint is None:
        return word is None
    if word is None:
        return name not in kind.__required_keys__ or name in OPTIONAL_ON_THE_WIRE.get(kind.__name__, ())
    words = list_words(hint)
    return word in words if words else isinstance(word, str)


def list_words(hint: Any) -> list[Any]:
    """The values of a literal type, also below Required and Optional."""
    if get_origin(hint) is Literal:
        return list(get_args(hint))
    return [word for inner in get_args(hint) for word in list_words(inner)]


def _refuse_type(kinds: Sequence[Any], value: Mapping[str, Any], path: str) -> NoReturn:
    name = "type" if "type" in value else "role"
    words = sorted({str(word) for kind in kinds for word in list_words(read_hints(kind).get(name))})
    raise invalid_value(f"{path}.{name}", value.get(name), words)


def describe(value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "a boolean"
        case int():
            return "an integer"
        case float():
            return "a decimal"
        case str():
            return "a string"
        case list():
            return "an array"
        case _:
            return "an object"
