"""The imitation: ``:generateContent``, ``:streamGenerateContent`` and ``:countTokens`` below ``/v1beta/models``."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Final

from google.genai import types

from qa.imitations.calling.plans import select_plan
from qa.imitations.calling.server import Received, Response
from qa.imitations.gemini.answers import make_answer, render_stream
from qa.imitations.gemini.conversation import check_conversation
from qa.imitations.gemini.messages import check, to_camel
from qa.imitations.gemini.models import find_model
from qa.imitations.gemini.refusal import Refusal, refuse
from qa.imitations.gemini.settings import check_settings, list_ignored

KEY: Final = "key-of-the-imitation"
_PATH: Final = re.compile(r"/v1beta/models/([^:]+):(generateContent|streamGenerateContent|countTokens)(?:\?(.*))?")
_MEMBERS: Final[Mapping[str, Any]] = {
    "contents": list[types.Content],
    "systemInstruction": types.Content,
    "generationConfig": types.GenerationConfig,
    "tools": list[types.Tool],
    "toolConfig": types.ToolConfig,
    "safetySettings": list[types.SafetySetting],
    "cachedContent": str,
    "model": str,
    "serviceTier": str,
    "store": bool,
}
"""The members of a request: ai.google.dev/api/generate-content (read 2026-11-22)."""


class GenerateApi:
    """Answers requests as the vendor does."""

    def __init__(self) -> None:
        self._issued: dict[str, str] = {}
        self._serial = 0

    def answer(self, received: Received) -> Response:
        """The response to one request."""
        try:
            return self._answer(received)
        except Refusal as refusal:
            error = {"code": 400, "message": str(refusal), "status": "INVALID_ARGUMENT"}
            return Response(
                400, "application/json", (json.dumps({"error": error}).encode(),), refused=str(refusal) or "refused"
            )

    def _answer(self, received: Received) -> Response:
        found = _PATH.fullmatch(received.path)
        if found is None:
            refuse(f"unknown path {received.path}")
        if received.headers.get("x-goog-api-key") != KEY:
            refuse("API key not valid. Please pass a valid API key.")
        body, name = received.body, found[1]
        if found[2] == "countTokens":
            body = body.get("generateContentRequest", body)
        for member, value in body.items():
            if to_camel(member) not in _MEMBERS:
                refuse(f'Invalid JSON payload received. Unknown name "{member}": Cannot find field.')
            check(value, _MEMBERS[to_camel(member)], member)
        body = _convert(body)
        model = find_model(name)
        check_conversation(body, model, self._issued)
        check_settings(body, model)
        if found[2] == "countTokens":
            return Response(200, "application/json", (b'{"totalTokens": 14}',), said={"totalTokens": 14})
        self._serial += 1
        said = make_answer(name, body, model, select_plan(json.dumps(body["contents"])), self._serial)
        for part in said["candidates"][0]["content"]["parts"]:
            if "thoughtSignature" in part:
                self._issued[part["thoughtSignature"]] = name
        if found[2] == "streamGenerateContent":
            sse = "alt=sse" in (found[3] or "")
            kind = "text/event-stream" if sse else "application/json"
            return Response(200, kind, render_stream(said, sse), said=said, ignored=list_ignored(model))
        chunks = (json.dumps(said).encode(),)
        return Response(200, "application/json; charset=UTF-8", chunks, said=said, ignored=list_ignored(model))


def _convert(value: Any) -> Any:
    """The names of known members in camelCase; arguments and schemas stay as they are."""
    if isinstance(value, list):
        return [_convert(item) for item in value]
    if not isinstance(value, dict):
        return value
    plain = ("args", "response", "parametersJsonSchema", "responseJsonSchema", "properties")
    return {
        to_camel(name): member if to_camel(name) in plain and not isinstance(member, list) else _convert(member)
        for name, member in value.items()
    }
