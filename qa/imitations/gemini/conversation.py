"""The rules for ``contents`` and ``systemInstruction``: roles, parts, pairs of calls and responses, and thought signatures.

Messages as quoted in public issues: numbers of responses google-gemini/gemini-cli#7410, signatures nanbingxyz/5ire#405. Which
calls need a signature, and the dummy values for calls of others: ai.google.dev/gemini-api/docs/thought-signatures (read
2026-11-22). A model turn at the end: LibreChat-AI/agents#323. Media types: ai.google.dev/gemini-api/docs/image-understanding,
/audio, /video-understanding and /document-processing, with those of docs.cloud.google.com/vertex-ai/generative-ai; "Unsupported
MIME type": charmbracelet/crush#995, image/jpg: brianpetro/obsidian-smart-connections#1238, application/json: agno-agi/agno#3964.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from typing import Any, Final

from qa.imitations.gemini.models import Model
from qa.imitations.gemini.refusal import refuse

_DUMMIES: Final = ("skip_thought_signature_validator", "context_engineering_is_the_way_to_go")
_DATA: Final = (
    "text", "inlineData", "fileData", "functionCall", "functionResponse", "executableCode", "codeExecutionResult",
    "toolCall", "toolResponse",
)  # fmt: skip
_MEDIA: Final = (
    "image/png", "image/jpeg", "image/webp", "image/heic", "image/heif", "application/pdf", "text/plain", "text/html",
    "text/css", "text/csv", "text/xml", "text/rtf", "text/md", "text/javascript", "text/x-python",
    "audio/wav", "audio/mp3", "audio/mpeg", "audio/aiff", "audio/aac", "audio/ogg", "audio/flac", "audio/mp4", "audio/m4a",
    "audio/webm", "audio/pcm", "audio/opus", "video/mp4", "video/mpeg", "video/mov", "video/quicktime", "video/avi",
    "video/x-flv", "video/mpg", "video/webm", "video/wmv", "video/3gpp",
)  # fmt: skip
_IN_RESPONSES: Final = ("image/png", "image/jpeg", "image/webp", "application/pdf", "text/plain")


def check_conversation(body: Mapping[str, Any], model: Model, issued: Mapping[str, str]) -> None:
    """Raise `Refusal` for a conversation that the vendor does not accept. `issued`: signatures of this imitation."""
    contents = body.get("contents") or []
    if not contents:
        refuse("* GenerateContentRequest.contents: contents is not specified")
    for number, content in enumerate(contents):
        if content.get("role") not in (None, "user", "model", "function"):
            refuse("Please use a valid role: user, model.")
        if not content.get("parts"):
            refuse(f"* GenerateContentRequest.contents[{number}].parts: contents.parts must not be empty.")
        for place, part in enumerate(content["parts"]):
            _check_part(part, f"contents[{number}].parts[{place}]", model, said=content.get("role") == "model")
    for place, part in enumerate((body.get("systemInstruction") or {}).get("parts") or ()):
        if not part.get("text"):
            refuse(f"* GenerateContentRequest.system_instruction.parts[{place}].data: must be a non-empty text")
    _check_pairs(contents)
    if model.newest and contents[-1].get("role") == "model" and "functionResponse" not in contents[-1]["parts"][-1]:
        refuse("Requests ending with a model turn are not supported unless the last part is a function response.")
    _check_signatures(contents, model, issued)


def _check_part(part: Mapping[str, Any], path: str, model: Model, *, said: bool) -> None:
    """Empty texts of the model itself are accepted: they end its streams, and the vendor's SDKs send them back (chats.py)."""
    kinds = [name for name in _DATA if name in part]
    empty = kinds == ["text"] and not part["text"] and not said
    if len(kinds) != 1 or empty:
        refuse(f"* GenerateContentRequest.{path}.data: required oneof field 'data' must have one initialized field")
    blob = part.get("inlineData")
    if blob is not None and blob.get("mimeType", "").partition(";")[0] not in _MEDIA:
        refuse(f"Unsupported MIME type: {blob.get('mimeType')}")
    if kinds[0] == "functionCall" and not part["functionCall"].get("name"):
        refuse(f"* GenerateContentRequest.{path}.function_call.name: Name cannot be empty.")
    response = part.get("functionResponse")
    if response is not None:
        if not response.get("name"):
            refuse(f"* GenerateContentRequest.{path}.function_response.name: Name cannot be empty.")
        for inner in response.get("parts") or ():
            if not model.third:
                refuse("Multimodal function response is not supported for this model.")
            if inner.get("inlineData", {}).get("mimeType") not in _IN_RESPONSES:
                refuse(f"Unsupported MIME type in a function response: {inner}")


def _list_turns(contents: Sequence[Mapping[str, Any]]) -> list[tuple[str, list[Mapping[str, Any]]]]:
    """(model, function or user; parts) of each turn. Adjacent contents of one kind are one turn."""
    turns: list[tuple[str, list[Mapping[str, Any]]]] = []
    for content in contents:
        answers = any("functionResponse" in part for part in content["parts"])
        kind = "model" if content.get("role") == "model" else ("function" if answers else "user")
        if turns and turns[-1][0] == kind:
            turns[-1][1].extend(content["parts"])
        else:
            turns.append((kind, list(content["parts"])))
    return turns


def _check_pairs(contents: Sequence[Mapping[str, Any]]) -> None:
    turns = _list_turns(contents)
    before: tuple[str, list[Mapping[str, Any]]] = ("", [])
    for kind, parts in turns:
        calls = [part["functionCall"] for part in parts if "functionCall" in part]
        asked = [part["functionCall"] for part in before[1] if "functionCall" in part]
        if calls and before[0] not in ("user", "function"):
            refuse(
                "Please ensure that function call turn comes immediately after a user turn or after a function response turn."
            )
        if kind == "function":
            responses = [part["functionResponse"] for part in parts if "functionResponse" in part]
            if not asked:
                refuse("Please ensure that function response turn comes immediately after a function call turn.")
            if len(responses) != len(asked):
                refuse(
                    "Please ensure that the number of function response parts is equal to the number of function call parts of "
                    "the function call turn."
                )
            if sorted(call["name"] for call in asked) != sorted(one["name"] for one in responses):
                refuse("Please ensure that the names of function responses are those of the function calls.")
        elif asked:
            refuse("Please ensure that function call turn is followed by a function response turn.")
        before = (kind, parts)


def _check_signatures(contents: Sequence[Mapping[str, Any]], model: Model, issued: Mapping[str, str]) -> None:
    for content in contents:
        for part in content["parts"]:
            signature = part.get("thoughtSignature")
            if signature is not None and signature not in issued and _decode(signature) not in _DUMMIES:
                refuse("Thought signature is not valid.")
    if not model.third:
        return
    turns = _list_turns(contents)
    current = max((number for number, (kind, _) in enumerate(turns) if kind == "user"), default=0)
    for number, (kind, parts) in enumerate(turns[current:], current):
        first = next((part for part in parts if "functionCall" in part), None)
        if kind == "model" and first is not None and not first.get("thoughtSignature"):
            refuse(
                "Function call is missing a thought_signature in functionCall parts. This is required for tools to work "
                f"correctly, and missing thought_signature may lead to degraded model performance. Additional data, function "
                f"call "
                f"`default_api:{first['functionCall']['name']}` , position {number + 1}."
            )


def _decode(signature: str) -> str:
    """A dummy value, which is accepted as it is and in base64."""
    if signature in _DUMMIES:
        return signature
    try:
        return base64.b64decode(signature).decode()
    except ValueError:
        return ""
