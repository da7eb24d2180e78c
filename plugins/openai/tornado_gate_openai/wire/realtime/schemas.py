"""Conversion of sessions, responses and items between the dialects. No I/O; arguments are never changed.

Members that exist in both dialects are moved; unknown members stay in place. A member that exists in only one dialect is
removed from client events, because an upstream rejects an event with an unknown member. `lose` is called with its path.

Source: openai-python 3.52, types/beta/realtime/session_update_event.py, response_create_event.py, conversation_item_content.py
against types/realtime/realtime_session_create_request.py, realtime_response_create_params.py and the conversation items.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from tornado_gate.codec.checks import raise_invalid

FieldDropper = Callable[[str], None]
"""Called with the path, in the caller's spelling, of a field that the upstream's dialect does not support."""

PCM_RATE: Final = 24_000
"""Samples per second: the only PCM rate of this format."""

CURRENT_FORMATS: Final[Mapping[str, str]] = {"pcm16": "audio/pcm", "g711_ulaw": "audio/pcmu", "g711_alaw": "audio/pcma"}
"""Audio formats: name in the beta dialect to type in the current dialect."""

_BETA_FORMATS: Final = {current: beta for beta, current in CURRENT_FORMATS.items()}
_SESSION_KINDS: Final = ("realtime", "transcription")
MISSING: Final = object()
"""Returned by `take_member` if there is no such member."""


def ignore_drop(path: str) -> None:
    """A `FieldDropper` that does nothing."""


def _convert_format_to_current(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    kind = CURRENT_FORMATS.get(value, value)
    return {"type": kind, "rate": PCM_RATE} if kind == "audio/pcm" else {"type": kind}


def _convert_format_to_beta(value: Any, path: str) -> Any:
    kind = value.get("type", "audio/pcm") if isinstance(value, Mapping) else None
    if not isinstance(kind, str):
        return value
    rate = value.get("rate")
    if kind == "audio/pcm" and rate not in (None, PCM_RATE):
        raise_invalid(f"{path}.rate", f"must be {PCM_RATE}, the only rate that this model supports")
    return _BETA_FORMATS.get(kind, kind)


def _convert_modalities_to_current(value: Any) -> Any:
    """Return modalities without "text" if there is "audio": the current dialect rejects both, as audio has a transcript."""
    if isinstance(value, list) and "audio" in value:
        return [modality for modality in value if modality != "text"]
    return value


def _convert_modalities_to_beta(value: Any, path: str) -> Any:
    if isinstance(value, list) and "audio" in value and "text" not in value:
        return ["text", *value]
    return value


def _convert_voice_to_beta(value: Any, path: str) -> Any:
    return value["id"] if isinstance(value, Mapping) and isinstance(value.get("id"), str) else value


def _keep_value(value: Any, path: str = "") -> Any:
    return value


class _MemberMapping(NamedTuple):
    """One member: its name in the beta dialect, its path in the current dialect, and the conversions of its value."""

    beta: str
    current: tuple[str, ...]
    to_current: Callable[[Any], Any] = _keep_value
    to_beta: Callable[[Any, str], Any] = _keep_value


_MODALITIES = _MemberMapping(
    "modalities", ("output_modalities",), _convert_modalities_to_current, _convert_modalities_to_beta
)
_OUTPUT_FORMAT = _MemberMapping(
    "output_audio_format", ("audio", "output", "format"), _convert_format_to_current, _convert_format_to_beta
)
_VOICE = _MemberMapping("voice", ("audio", "output", "voice"), _keep_value, _convert_voice_to_beta)
_MAX_TOKENS = _MemberMapping("max_response_output_tokens", ("max_output_tokens",))
_SESSION_MAPPINGS: Final = (
    _MODALITIES,
    _VOICE,
    _MemberMapping(
        "input_audio_format", ("audio", "input", "format"), _convert_format_to_current, _convert_format_to_beta
    ),
    _OUTPUT_FORMAT,
    _MemberMapping("input_audio_transcription", ("audio", "input", "transcription")),
    _MemberMapping("input_audio_noise_reduction", ("audio", "input", "noise_reduction")),
    _MemberMapping("turn_detection", ("audio", "input", "turn_detection")),
    _MemberMapping("speed", ("audio", "output", "speed")),
    _MAX_TOKENS,
)
_RESPONSE_MAPPINGS: Final = (_MODALITIES, _VOICE, _OUTPUT_FORMAT)
_RESPONSE_CREATE_MAPPINGS: Final = (*_RESPONSE_MAPPINGS, _MAX_TOKENS)
_BETA_ONLY_MEMBERS: Final = ("temperature", "client_secret")
_CURRENT_ONLY_MEMBERS: Final = ("include", "parallel_tool_calls", "prompt", "reasoning", "truncation")


def convert_session_to_current(session: Any, kind: str = "realtime", path: str = "session") -> Any:
    """Return a session with the member ``type``, which the current dialect requires."""
    if not isinstance(session, Mapping):
        return session
    current = _convert_to_current(session, _SESSION_MAPPINGS, path)
    return current if current.get("type") in _SESSION_KINDS else {**current, "type": kind}


def convert_param_to_beta(param: str) -> str:
    """Return the beta dialect's path (such as ``session.voice``) for a path of the current dialect."""
    for move in _SESSION_MAPPINGS:
        for top in ("session", "response"):
            current = ".".join((top, *move.current))
            if param == current or param.startswith(current + "."):
                return f"{top}.{move.beta}{param[len(current) :]}"
    return param


def convert_param_to_current(param: str) -> str:
    """Return the current dialect's path for a path of the beta dialect."""
    for move in _SESSION_MAPPINGS:
        for top in ("session", "response"):
            beta = f"{top}.{move.beta}"
            if param == beta or param.startswith(beta + "."):
                return ".".join((top, *move.current)) + param[len(beta) :]
    return param


def convert_session_to_beta(session: Any, path: str = "session") -> Any:
    """Return a session without the member ``type``, which the beta dialect does not have."""
    if not isinstance(session, Mapping):
        return session
    result = _convert_to_beta(session, _SESSION_MAPPINGS, path)
    if result.get("type") in _SESSION_KINDS:
        del result["type"]
    return result


def convert_response_to_current(response: Any) -> Any:
    """Return the response object of a server event in the current dialect."""
    if not isinstance(response, Mapping):
        return response
    return _translate_items(
        _convert_to_current(response, _RESPONSE_MAPPINGS, "response"), "output", convert_item_to_current
    )


def convert_response_to_beta(response: Any) -> Any:
    """Return the response object of a server event in the beta dialect."""
    if not isinstance(response, Mapping):
        return response
    return _translate_items(_convert_to_beta(response, _RESPONSE_MAPPINGS, "response"), "output", convert_item_to_beta)


def convert_response_create_to_current(response: Any, lose: FieldDropper) -> Any:
    """Return the response object of ``response.create`` in the current dialect."""
    if not isinstance(response, Mapping):
        return response
    result = _convert_to_current(response, _RESPONSE_CREATE_MAPPINGS, "response")
    return drop_beta_only(_translate_items(result, "input", convert_item_to_current), "response", lose)


def convert_response_create_to_beta(response: Any, lose: FieldDropper) -> Any:
    """Return the response object of ``response.create`` in the beta dialect."""
    if not isinstance(response, Mapping):
        return response
    result = _convert_to_beta(response, _RESPONSE_CREATE_MAPPINGS, "response")
    return drop_current_only(_translate_items(result, "input", convert_item_to_beta), "response", lose)


def drop_beta_only(members: dict[str, Any], path: str, lose: FieldDropper) -> dict[str, Any]:
    """Return `members` without the members that only the beta dialect has; report them to `lose`."""
    return _drop_members(members, _BETA_ONLY_MEMBERS, path, lose)


def drop_current_only(
    members: dict[str, Any], path: str, lose: FieldDropper, keep: tuple[str, ...] = ()
) -> dict[str, Any]:
    """Return `members` without the members that only the current dialect has, except `keep`; report them to `lose`."""
    return _drop_members(members, tuple(name for name in _CURRENT_ONLY_MEMBERS if name not in keep), path, lose)


def _drop_members(members: dict[str, Any], names: tuple[str, ...], path: str, lose: FieldDropper) -> dict[str, Any]:
    for name in names:
        if members.get(name) is not None:
            lose(f"{path}.{name}")
    return {name: value for name, value in members.items() if name not in names}


def convert_item_to_current(item: Any) -> Any:
    """Return a conversation item in the current dialect, where the part type of a ``text`` depends on the item's role."""
    role = item.get("role") if isinstance(item, Mapping) else None
    if role in ("user", "system"):
        return _rename_parts(item, {"text": "input_text", "audio": "input_audio"})
    return _rename_parts(item, {"text": "output_text", "audio": "output_audio"})


def convert_item_to_beta(item: Any) -> Any:
    """Return a conversation item in the beta dialect."""
    return _rename_parts(item, _BETA_PARTS)


def rename_part(part: Any) -> Any:
    """Return the part of ``response.content_part.*``, whose type is ``text`` or ``audio`` in both dialects."""
    return _rename_type(part, _BETA_PARTS)


_BETA_PARTS: Final = {"output_text": "text", "output_audio": "audio"}


def _rename_parts(item: Any, names: Mapping[str, str]) -> Any:
    content = item.get("content") if isinstance(item, Mapping) else None
    if not isinstance(content, list):
        return item
    return {**item, "content": [_rename_type(part, names) for part in content]}


def _rename_type(part: Any, names: Mapping[str, str]) -> Any:
    kind = part.get("type") if isinstance(part, Mapping) else None
    if not isinstance(kind, str) or kind not in names:
        return part
    return {**part, "type": names[kind]}


def _translate_items(response: dict[str, Any], name: str, translate: Callable[[Any], Any]) -> dict[str, Any]:
    items = response.get(name)
    return {**response, name: [translate(item) for item in items]} if isinstance(items, list) else response


def _convert_to_current(value: Mapping[str, Any], moves: tuple[_MemberMapping, ...], path: str) -> dict[str, Any]:
    moved = {move.beta for move in moves}
    result = {name: member for name, member in value.items() if name not in moved}
    for move in moves:
        if move.beta in value:
            _put_member(result, move.current, move.to_current(value[move.beta]), path)
    return result


def _convert_to_beta(value: Mapping[str, Any], moves: tuple[_MemberMapping, ...], path: str) -> dict[str, Any]:
    result = dict(value)
    converted: dict[str, Any] = {}
    for move in moves:
        member = take_member(result, move.current)
        if member is not MISSING:
            converted[move.beta] = move.to_beta(member, ".".join((path, *move.current)))
    return {**result, **converted}


def _put_member(value: dict[str, Any], at: tuple[str, ...], member: Any, path: str) -> None:
    """Set the member at the path `at`. Raises InvalidField if a value on the way is not an object."""
    for depth, name in enumerate(at[:-1], start=1):
        inner = value.get(name)
        if inner is not None and not isinstance(inner, Mapping):
            raise_invalid(".".join((path, *at[:depth])), "must be an object")
        value[name] = dict(inner or {})
        value = value[name]
    value[at[-1]] = member


def take_member(value: dict[str, Any], at: tuple[str, ...]) -> Any:
    """Remove the member at the path `at`, and objects that become empty; return the member, or `MISSING` if absent."""
    name, deeper = at[0], at[1:]
    if not deeper:
        return value.pop(name, MISSING)
    inner = value.get(name)
    if not isinstance(inner, Mapping):
        return MISSING
    rest = dict(inner)
    member = take_member(rest, deeper)
    if rest:
        value[name] = rest
    else:
        del value[name]
    return member
