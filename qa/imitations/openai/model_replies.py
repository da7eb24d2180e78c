"""What the imitated model says to a request: decided by the request alone, so that a test knows it beforehand.

The words of the last user message steer it: ``refuse``, ``cut``, ``exhaust`` (only reasoning), ``filter``, ``cite``, ``both``
(two tools at once), ``aloud`` (a text before the tool calls). A tool is called when there are tools and the last turn is a
user's. Everything said contains characters that are cut in the middle by a naive byte stream.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from qa.imitations.openai.models import Model

SUMMARY: Final = ("**Weighing the question**\n\nThe naïve reading is wrong.", "**Deciding**\n\nSo the café it is ☕.")
REFUSAL: Final = "I can't help with that – désolé."
CITED: Final = {"start_index": 0, "end_index": 6, "url": "https://example.com/source", "title": "A source"}
INPUT_TOKENS: Final = 48
CACHED_TOKENS: Final = 16
REASONING_TOKENS: Final = 32
VISIBLE_TOKENS: Final = 10


@dataclass(frozen=True, slots=True)
class Asked:
    """What matters of a request. `tools` are (kind, name, parameters), `forced` is the names that must be called."""

    words: str
    answered: bool = False
    effort: str = ""
    summary: bool = False
    tools: tuple[tuple[str, str, Any], ...] = ()
    mode: str = "auto"
    forced: tuple[str, ...] = ()
    parallel: bool = True
    schema: Any = None
    json: bool = False
    logprobs: bool = False
    top: int = 0
    audio: bool = False


@dataclass(frozen=True, slots=True)
class Said:
    """One answer. `calls` are (kind, name, text); `summary` is empty when no summary was requested."""

    text: str = ""
    refusal: str = ""
    calls: tuple[tuple[str, str, str], ...] = ()
    summary: tuple[str, ...] = ()
    reasoned: bool = False
    cited: bool = False
    logprobs: bool = False
    top: int = 0
    end: str = "stop"
    audio: bool = False

    @property
    def output_tokens(self) -> int:
        return VISIBLE_TOKENS + (REASONING_TOKENS if self.reasoned else 0)


@dataclass(slots=True)
class Log:
    """What was said, in order."""

    said: list[Said] = field(default_factory=list)


def reply(model: Model, asked: Asked) -> Said:
    """What the model says."""
    reasoned = model.reasons and (asked.effort or model.default) != "none"
    base: dict[str, Any] = {
        "reasoned": reasoned,
        "summary": SUMMARY if reasoned and asked.summary else (),
        "logprobs": asked.logprobs,
        "top": asked.top,
        "audio": asked.audio,
    }
    words = asked.words.lower()
    if calls := _choose_calls(asked, words):
        text = "Let me look that up – un café." if "aloud" in words else ""
        return Said(calls=calls, text=text, end="tool_calls", **base)
    if "refuse" in words:
        return Said(refusal=REFUSAL, **base)
    if "filter" in words:
        return Said(text="Halfway thr", end="content_filter", **base)
    if "exhaust" in words and reasoned:
        return Said(end="length", **base)
    if "cut" in words:
        return Said(text="This text is cut in the midd", end="length", **base)
    if asked.schema is not None:
        return Said(text=json.dumps(make_instance(asked.schema, asked.schema), ensure_ascii=False), **base)
    if asked.json:
        return Said(text='{"city": "Zürich"}', **base)
    return Said(text=make_text(asked.words), cited="cite" in words, **base)


def make_text(words: str) -> str:
    digest = hashlib.sha256(words.encode()).hexdigest()[:8]
    return f"Answer {digest}: voilà, it is blue ☕ – done."


def _choose_calls(asked: Asked, words: str) -> tuple[tuple[str, str, str], ...]:
    if not asked.tools or asked.mode == "none":
        return ()
    must = asked.mode in ("required", "forced")
    if (asked.answered or "without tools" in words) and not must:
        return ()
    allowed = [tool for tool in asked.tools if not asked.forced or tool[1] in asked.forced]
    count = 2 if "both" in words and asked.parallel else 1
    return tuple((kind, name, _make_call_text(kind, schema)) for kind, name, schema in allowed[:count])


def _make_call_text(kind: str, schema: Any) -> str:
    if kind == "custom":
        return "*** free text: naïve ☕\nsecond line"
    return json.dumps(make_instance(schema, schema) if schema else {}, ensure_ascii=False)


def make_instance(schema: Any, root: Mapping[str, Any]) -> Any:
    """A value that a JSON schema accepts."""
    if not isinstance(schema, Mapping):
        return "any"
    if "$ref" in schema:
        return _follow(schema, root)
    if "const" in schema:
        return schema["const"]
    if schema.get("enum"):
        return schema["enum"][0]
    for word in ("anyOf", "oneOf", "allOf"):
        if {"type": "null"} in (schema.get(word) or ()):  # the model leaves out what it may leave out
            return None
        if schema.get(word):
            return make_instance(schema[word][0], root)
    kind = schema.get("type")
    kind = kind[0] if isinstance(kind, list) else kind
    if kind == "object":
        return {name: make_instance(inner, root) for name, inner in (schema.get("properties") or {}).items()}
    if kind == "array":
        return [make_instance(schema.get("items") or {}, root)]
    return {"integer": 7, "number": 1.5, "boolean": True, "null": None}.get(str(kind), "Zürich")


def _follow(schema: Mapping[str, Any], root: Mapping[str, Any]) -> Any:
    """The instance of a reference; a recursive one ends at its first repetition."""
    target: Any = root
    for step in str(schema["$ref"]).removeprefix("#").strip("/").split("/"):
        target = target.get(step, {}) if step else target
    if target is root or target is schema:
        return None
    return make_instance(_without_references(target), root)


def _without_references(schema: Any) -> Any:
    if isinstance(schema, Mapping):
        return (
            {name: _without_references(inner) for name, inner in schema.items() if inner != "$ref"}
            if ("$ref" not in schema)
            else {"type": "null"}
        )
    if isinstance(schema, list):
        return [_without_references(inner) for inner in schema]
    return schema


def cut_in_pieces(text: str, size: int = 5) -> Sequence[str]:
    return [text[at : at + size] for at in range(0, len(text), size)]


def list_tokens(said: Said, text: str) -> list[dict[str, Any]]:
    """The log probabilities of a text, one for each piece; [] when they were not requested."""
    if not said.logprobs:
        return []
    return [
        {
            "token": piece,
            "bytes": list(piece.encode()),
            "logprob": -0.25,
            "top_logprobs": [
                {"token": piece, "bytes": list(piece.encode()), "logprob": -0.25 - rank} for rank in range(said.top)
            ],
        }
        for piece in cut_in_pieces(text)
    ]
