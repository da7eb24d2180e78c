"""Conversations that go on at another vendor in the middle, as after a fallback: foreign thinking stays out, all else arrives."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from qa.imitations.anthropic.api import KEY as ANTHROPIC_KEY
from qa.imitations.anthropic.api import MessagesApi
from qa.imitations.anthropic.vendor import ANTHROPIC
from qa.imitations.calling.run import KEY, Report, Runner, serve_gateway
from qa.imitations.calling.scenario import Caller, Feature, Scenario, Turn
from qa.imitations.calling.server import Imitation
from qa.imitations.gemini.api import KEY as GEMINI_KEY
from qa.imitations.gemini.api import GenerateApi
from qa.imitations.gemini.vendor import GEMINI

CLAUDES: Final = ("claude-haiku-4-5", "claude-opus-4-8", "claude-opus-5-5", "claude-sonnet-5-5")
GEMINIS: Final = ("gemini-2.5-flash", "gemini-3-pro-preview", "gemini-3.8-flash")
_CONF: Final = """
plugins: {{anthropic: true, openai: true, gemini: true}}
providers:
  a: {{plugin: anthropic, base_url: "{anthropic}", api_key: {anthropic_key}}}
  g: {{plugin: gemini, base_url: "{gemini}", api_key: {gemini_key}}}
models:
  "claude-*": {{provider: a, model: "claude-*"}}
  "gemini-*": {{provider: g, model: "gemini-*"}}
keys:
  - {{name: test, key: {key}}}
circuits: {{failures: 100000, open_seconds: 0.001}}
"""
_SCHEMA: Final = {"type": "object", "properties": {"at": {"type": "string"}}}
_QUESTION: Final = "mark-question plan-interleaved"
_FUNCTIONS: Final = [{"name": name, "parametersJsonSchema": _SCHEMA} for name in ("look", "list_all")]
_BODIES: Final[dict[Caller, dict[str, Any]]] = {
    "chat": {
        "messages": [{"role": "user", "content": _QUESTION}],
        "tools": [
            {"type": "function", "function": {"name": name, "parameters": _SCHEMA}} for name in ("look", "list_all")
        ],
        "reasoning_effort": "medium",
        "max_tokens": 20_000,
    },
    "responses": {
        "input": [{"role": "user", "content": _QUESTION}],
        "tools": [
            {"type": "function", "name": name, "parameters": _SCHEMA, "strict": False} for name in ("look", "list_all")
        ],
        "reasoning": {"effort": "medium", "summary": "auto"},
        "max_output_tokens": 20_000,
    },
    "messages": {
        "messages": [{"role": "user", "content": _QUESTION}],
        "tools": [{"name": name, "input_schema": _SCHEMA} for name in ("look", "list_all")],
        "max_tokens": 20_000,
    },
    "generate": {
        "contents": [{"role": "user", "parts": [{"text": _QUESTION}]}],
        "tools": [{"functionDeclarations": _FUNCTIONS}],
        "generationConfig": {"thinkingConfig": {"includeThoughts": True}, "maxOutputTokens": 20_000},
    },
}


def list_crossings() -> Iterator[Scenario]:
    """From each Claude to each Gemini and back, and the reverse; with clients that keep thinking, and that forget it."""
    number = 0
    for claude in CLAUDES:
        for gemini in GEMINIS:
            for first, second in ((claude, gemini), (gemini, claude)):
                for caller, body in _BODIES.items():
                    for forgets in (False, True):
                        number += 1
                        turns = (
                            Turn("plan-parallel", model=second),
                            Turn("plan-two-thoughts", model=first),
                            Turn("plan-text"),
                            Turn("plan-text", results=False, model=second),
                        )
                        name = f"to-{second}" + ("-forgets" if forgets else "")
                        feature = Feature(
                            name=name, body=body, turns=turns, forgets=forgets, shows=caller != "messages"
                        )
                        yield Scenario(feature=feature, caller=caller, model=first, stream=bool(number // 2 % 2))


def run_crossings() -> Report:
    """The report on all conversations between the two vendors."""
    imitations = {"anthropic": Imitation(MessagesApi().answer), "gemini": Imitation(GenerateApi().answer)}
    for imitation in imitations.values():
        imitation.start()
    keys = {"anthropic_key": ANTHROPIC_KEY, "gemini_key": GEMINI_KEY, "key": KEY}
    conf = _CONF.format(anthropic=imitations["anthropic"].url, gemini=imitations["gemini"].url, **keys)
    try:
        with tempfile.TemporaryDirectory() as folder, serve_gateway(conf, Path(folder)) as gateway:
            runner = Runner(gateway, imitations, {"anthropic": ANTHROPIC, "gemini": GEMINI})
            return runner.run(list_crossings())
    finally:
        for imitation in imitations.values():
            imitation.stop()
