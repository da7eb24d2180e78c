"""Runs scenarios through a gateway against the imitation, and says what is wrong with each."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Self

import httpx

from qa.imitations.openai import callers, comparison
from qa.imitations.openai import model_replies as replies
from qa.imitations.openai.callers import CHAT, GENERATE, MESSAGES, RESPONSES, Reply, Shown, send
from qa.imitations.openai.model_replies import Said
from qa.imitations.openai.scenario import Scenario
from qa.imitations.openai.vendor import OpenAI
from tests.support.gateway import Gateway
from tests.support.imitation_server import ImitationServer, Record

KEY: Final = "imitation-test-key-0123456789"
_ENTRY: Final = (
    '  {api}: {{plugin: openai, base_url: "{url}/v1", api_key: key-of-the-vendor, openai_models: true, {more}}}\n'
)
_APIS: Final = {
    "auto": "api: auto",
    "chat": "api: chat",
    "responses": "api: responses",
    "chatonly": "api: chat, responses: false",
}
"""By entry: its settings; `chatonly` is an upstream that has no responses."""

_ENDS: Final = {
    CHAT: {"stop": "stop", "tool_calls": "tool_calls", "length": "length", "content_filter": "content_filter"},
    RESPONSES: {
        "stop": "completed",
        "tool_calls": "completed",
        "length": "max_output_tokens",
        "content_filter": "content_filter",
    },
    MESSAGES: {"stop": "end_turn", "tool_calls": "tool_use", "length": "max_tokens", "content_filter": "refusal"},
    GENERATE: {"stop": "STOP", "tool_calls": "STOP", "length": "MAX_TOKENS", "content_filter": "SAFETY"},
}


@dataclass(frozen=True, slots=True)
class Case:
    """A scenario at one model behind one entry."""

    scenario: Scenario
    model: str
    api: str
    stream: bool

    @property
    def id(self) -> str:
        way = "stream" if self.stream else "whole"
        return f"{self.scenario.format}-{self.scenario.name.replace(' ', '_')}-{self.model}-{self.api}-{way}"


@dataclass(slots=True)
class Findings:
    """What is wrong with one case. `refused` are the vendor's errors, `unreported` the losses that nothing names."""

    refused: list[str] = field(default_factory=list)
    unreported: list[str] = field(default_factory=list)
    others: list[str] = field(default_factory=list)

    @property
    def all(self) -> list[str]:
        return [*self.refused, *self.unreported, *self.others]


def list_cases(scenarios: tuple[Scenario, ...]) -> list[Case]:
    """Every scenario at each model and entry; the first and the last model are also asked for streams."""
    return [
        Case(scenario, model, api, stream)
        for scenario in scenarios
        for model in scenario.models
        for api in scenario.apis
        for stream in ((False, True) if model in (scenario.models[0], scenario.models[-1]) else (False,))
    ]


class Stage:
    """A gateway in front of the imitation, with an entry for each value of the setting ``api``."""

    def __init__(self, folder: Path) -> None:
        self.vendor = OpenAI()
        self.server = ImitationServer(self.vendor)
        url = self.server.url
        conf = "plugins: {openai: true}\nproviders:\n"
        conf += "".join(_ENTRY.format(api=api, url=url, more=more) for api, more in _APIS.items())
        conf += "models:\n" + "".join(f'  "{api}/*": {{provider: {api}}}\n' for api in _APIS)
        conf += "circuits: {failures: 100000, open_seconds: 0.001}\n"
        conf += f'keys:\n  - {{name: test, key: "{KEY}"}}\n'
        self.gateway = Gateway.start(conf, folder)
        headers = {"authorization": f"Bearer {KEY}"}
        self.client = httpx.Client(base_url=self.gateway.url, headers=headers, timeout=60, trust_env=False)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.client.close()
        self.gateway.stop()
        self.server.stop()

    def run(self, case: Case) -> Findings:
        """Send the request and all turns that follow it."""
        findings = Findings()
        try:
            self._run_turns(case, findings)
        except Exception as error:  # an answer that the vendor's SDK cannot read is a finding
            findings.others.append(f"{type(error).__name__}: {error}")
        return findings

    def _run_turns(self, case: Case, findings: Findings) -> None:
        scenario, body = case.scenario, dict(case.scenario.body)
        for turn in range(len(scenario.then) + 1):
            self.server.reset()
            reply = send(self.client, scenario.format, f"{case.api}/{case.model}", body, case.stream)
            records = list(self.server.records)
            if not check_turn(findings, case, turn, body, reply, records):
                break
            said = self.vendor.said[-1]
            _check_shown(findings, case, reply.shown, said)
            if turn < len(scenario.then):
                body = scenario.then[turn](scenario.format, body, reply.shown)


def check_turn(
    findings: Findings, case: Case, turn: int, body: dict[str, Any], reply: Reply, records: list[Record]
) -> bool:
    """Check what arrived in one turn; False when no turn can follow."""
    scenario = case.scenario
    if scenario.refused:
        if reply.status != 400 or scenario.refused not in reply.error:
            findings.others.append(f"not refused as the vendor refuses it: {reply.status} {reply.error}")
        return False
    if scenario.stopped:
        if reply.status != 400 or records or f'"param":"{scenario.stopped}"' not in reply.error.replace(" ", ""):
            findings.others.append(
                f"not stopped at {scenario.stopped}: {reply.status} {reply.error}; sent: {len(records)}"
            )
        return False
    if reply.status != 200:
        findings.refused.append(f"turn {turn}: {reply.status} {reply.error}")
        return False
    if [record.status for record in records] != [200]:
        findings.refused.append(f"turn {turn}: {[record.refusal for record in records]}")
        return False
    arrived = records[0].request.json
    expected = scenario.lost if turn == 0 or scenario.later is None else scenario.later
    if sorted(reply.losses) != sorted(expected):
        findings.others.append(f"turn {turn}: x-gate-loss is {reply.losses}, not {expected}")
    missing = comparison.find_unreported(body, arrived, reply.losses, scenario.mapped)
    findings.unreported += [f"turn {turn}: {path} is neither sent nor reported" for path in missing]
    if turn == 0:
        findings.others += _check_arrived(scenario, records[0], arrived)
    unchanged = {name: value for name, value in arrived.items() if name not in ("stream", "stream_options")}
    if scenario.verbatim and {**body, "model": case.model} != unchanged:
        findings.others.append(f"turn {turn}: the body was changed on its way: {arrived}")
    return True


def _check_arrived(scenario: Scenario, record: Record, arrived: dict[str, Any]) -> Iterator[str]:
    path = record.request.path
    if scenario.path and path != scenario.path:
        yield f"sent to {path}, not to {scenario.path}"
    own = scenario.chat if path.endswith("/chat/completions") else scenario.responses
    for place, value in {**scenario.arrives, **own}.items():
        if comparison.get_at(arrived, place) != value:
            yield f"{place} is {comparison.get_at(arrived, place)!r}, not {value!r}"


def _check_shown(findings: Findings, case: Case, shown: Shown, said: Said) -> None:
    """What the vendor said is what the caller sees, as far as the caller's format has a place for it."""
    wire_format = case.scenario.format
    refusal_apart = wire_format in (CHAT, RESPONSES)
    calls = [_read_call(case, call) for call in said.calls]
    said_text = json.dumps(json.loads(said.text)["value"], ensure_ascii=False) if case.scenario.wrapped else said.text
    expected: dict[str, Any] = {
        "text": said_text if refusal_apart else said_text + said.refusal,
        "refusal": said.refusal if refusal_apart else "",
        "calls": [(kind if refusal_apart else "function", name) for kind, name, _ in calls],
        "thinking": "\n\n".join(said.summary),
        "end": _ENDS[wire_format]["content_filter" if said.refusal and not refusal_apart else said.end],
    }
    if case.scenario.absent and said_text:
        expected["text"] = _without(said_text, case.scenario.absent)
        shown.text = json.dumps(json.loads(shown.text))
    actual: dict[str, Any] = {
        "text": shown.text,
        "refusal": shown.refusal,
        "calls": [(call.kind, call.name) for call in shown.calls],
        "thinking": shown.thinking,
        "end": shown.end,
    }
    if wire_format == CHAT:
        del expected["thinking"]  # the vendor's chat shows none
    for name, value in expected.items():
        if actual[name] != value:
            findings.others.append(f"the caller sees {name} {actual[name]!r}, not {value!r}")
    for call, (kind, _, text) in zip(shown.calls, calls, strict=False):
        said_text = _without(text, case.scenario.absent) if case.scenario.absent else text
        same = call.text == text if kind == "custom" else json.loads(call.text) == json.loads(said_text)
        if not same:
            findings.others.append(f"the caller sees the arguments {call.text!r}, not {text!r}")
    _check_usage(findings, shown, said)
    _check_extras(findings, case, shown, said)


def _without(text: str, names: tuple[str, ...]) -> str:
    return json.dumps(_drop(json.loads(text), names))


def _drop(value: Any, names: tuple[str, ...]) -> Any:
    if isinstance(value, list):
        return [_drop(item, names) for item in value]
    if not isinstance(value, dict):
        return value
    return {name: _drop(member, names) for name, member in value.items() if name not in names}


def _read_call(case: Case, call: tuple[str, str, str]) -> tuple[str, str, str]:
    """A call as the caller must see it: one of a function that stands for a custom tool of the caller is one of that tool."""
    kind, name, text = call
    names = _list_tool_names(case.scenario.body)
    if name not in names:  # the vendor was sent another name, and the caller must see its own
        name = next(iter(names), "")
    if names.get(name) == "custom" and kind == "function" and case.scenario.format in (CHAT, RESPONSES):
        return "custom", name, json.loads(text)["input"]
    return kind, name, text


def _list_tool_names(body: Mapping[str, Any]) -> dict[str, str]:
    """The caller's tools, with their types."""
    names: dict[str, str] = {}
    for tool in body.get("tools") or ():
        for one in tool.get("functionDeclarations") or [tool.get("function") or tool.get("custom") or tool]:
            names[one.get("name", "")] = str(tool.get("type"))
    return names


def _check_usage(findings: Findings, shown: Shown, said: Said) -> None:
    reasoning = replies.REASONING_TOKENS if said.reasoned else 0
    usage = (replies.INPUT_TOKENS, replies.CACHED_TOKENS, said.output_tokens, reasoning)
    if any(seen not in (None, sent) for seen, sent in zip(shown.usage, usage, strict=True)):
        findings.others.append(f"the caller sees the usage {shown.usage}, not {usage}")


def _check_extras(findings: Findings, case: Case, shown: Shown, said: Said) -> None:
    wanted = case.scenario.thinking
    if wanted is not None and bool(shown.thinking) != wanted:
        findings.others.append("the caller pays for thinking that it asked to see, and sees none")
    if case.scenario.format in (CHAT, RESPONSES) and said.cited and not shown.annotations:
        findings.others.append("the caller sees no annotations")
    if case.scenario.format != MESSAGES and said.logprobs and said.text and not shown.logprobs:
        findings.others.append("the caller sees no log probabilities")


__all__ = ["Case", "Findings", "Stage", "callers", "list_cases"]
