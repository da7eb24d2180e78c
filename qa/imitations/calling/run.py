"""Runs scenarios: a real gateway in its own process, and an imitation behind it. Nothing here knows a vendor."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import httpx

from qa.imitations.calling.places import list_tool_names
from qa.imitations.calling.scenario import Caller, Need, Scenario, Turn, find, list_marks, list_thinking
from qa.imitations.calling.server import Imitation, Received, Response
from qa.imitations.calling.turns import continue_body
from qa.imitations.calling.views import View, merge, read_answer
from tests.support.gateway import Gateway

KEY: Final = "key-of-the-caller"
_HEADERS: Final[Mapping[Caller, Mapping[str, str]]] = {
    "chat": {"x-stainless-lang": "python"},
    "responses": {"x-stainless-lang": "python"},
    "messages": {"anthropic-version": "2023-06-01"},
    "generate": {"x-goog-api-client": "google-genai-sdk/3.4 gl-python/3.11"},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Vendor:
    """One vendor: the callers of its upstream's formats, and what an answer of its imitation looks like to each caller.

    `items` of an answer, `usage` of it, `finish` for a caller; `thinking`: the signatures of an answer that must come back;
    `name` selects the place in a `Need`; `shows_in_chats`: the gateway asks for thinking that chats can show, though they have
    no field to ask for it.
    """

    name: str
    own: tuple[Caller, ...]
    shows_in_chats: bool
    items: Callable[[Any], list[tuple[str, Any]]]
    usage: Callable[[Any], tuple[int, int, int, int]]
    finish: Callable[[Any, Caller], str]
    signatures: Callable[[Any], list[str]]


@dataclass(slots=True)
class Report:
    """What a run found. Each fault has the name of its scenario."""

    tried: int = 0
    requests: int = 0
    refused: list[str] = field(default_factory=list)
    unreported: list[str] = field(default_factory=list)
    poorer: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        counts = f"tried {self.tried} ({self.requests} requests), refused {len(self.refused)}"
        return f"{counts}, losses unreported {len(self.unreported)}, answers poorer {len(self.poorer)}"

    def list_faults(self) -> list[str]:
        """All faults, one text each."""
        kinds = (("refused", self.refused), ("unreported", self.unreported), ("poorer", self.poorer))
        return [f"{kind}: {fault}" for kind, faults in kinds for fault in faults]


@contextmanager
def serve_gateway(conf: str, folder: Path) -> Iterator[Gateway]:
    """A gateway process with this conf."""
    gateway = Gateway.start(conf, folder)
    try:
        yield gateway
    finally:
        gateway.stop()


class Runner:
    """Sends scenarios through a gateway to the imitation of one vendor."""

    def __init__(
        self,
        gateway: Gateway,
        imitations: Mapping[str, Imitation],
        vendors: Mapping[str, Vendor],
        report: Report | None = None,
    ) -> None:
        self._gateway = gateway
        self._imitations = imitations
        self._vendors = vendors
        self.report = Report() if report is None else report

    def run(self, scenarios: Iterable[Scenario]) -> Report:
        """Run all scenarios. A model belongs to the vendor whose models it is named like."""
        with httpx.Client(timeout=60, trust_env=False) as client:
            for scenario in scenarios:
                self.report.tried += 1
                self._run_one(client, scenario)
        return self.report

    def _run_one(self, client: httpx.Client, scenario: Scenario) -> None:
        feature = scenario.feature
        body, model = dict(feature.body), scenario.model
        vendor = find_vendor(model)
        signatures: list[str] = []
        for number, turn in enumerate((Turn(), *feature.turns)):
            name = f"{scenario.name} turn {number}"
            if turn.model:
                vendor, model, signatures = find_vendor(turn.model), turn.model, []
            exchange = self._send(client, scenario, body, model, name, vendor)
            if exchange is None:
                return
            received, response, answer, losses = exchange
            needs = feature.needs if not number else ()
            self._check_arrival(name, needs, body, received, losses, vendor, response.ignored)
            sent = received.raw.decode()
            own = scenario.caller in self._vendors[vendor].own and feature.forgets
            if number and turn.results and not own and not losses and not all(one in sent for one in signatures):
                self.report.unreported.append(f"{name}: thinking of the turn before did not come back")
            try:
                view = read_answer(scenario.caller, answer.text, scenario.stream)
            except (AssertionError, KeyError, ValueError, IndexError) as fault:
                self.report.poorer.append(f"{name}: unreadable answer: {fault!r}: {answer.text[:400]}")
                return
            names = dict(zip(list_tool_names(received.body), list_tool_names(body), strict=False))
            self._compare(name, scenario, view, response.said, self._vendors[vendor], names)
            signatures = self._vendors[vendor].signatures(response.said)
            if number < len(feature.turns):
                following = feature.turns[number]
                body = continue_body(scenario.caller, body, view.raw, following, number + 1, forgets=feature.forgets)
                body |= following.edits

    def _send(
        self, client: httpx.Client, scenario: Scenario, body: Mapping[str, Any], model: str, name: str, vendor: str
    ) -> tuple[Received, Response, httpx.Response, tuple[str, ...]] | None:
        imitation = self._imitations[vendor]
        before = len(imitation.exchanges)
        path, sent = _address(scenario.caller, body, model, scenario.stream)
        headers = {"authorization": f"Bearer {KEY}", **_HEADERS[scenario.caller]}
        answer = client.post(self._gateway.url + path, json=sent, headers=headers)
        self.report.requests += 1
        exchanges = imitation.exchanges[before:]
        if (place := scenario.feature.refused.get(vendor)) is not None:
            self._check_refusal(name, answer, place, len(exchanges))
            return None
        refusals = [response.refused for _, response in exchanges if response.refused]
        if refusals or answer.status_code != 200 or not exchanges:
            why = refusals[0] if refusals else f"{answer.status_code} {answer.text[:300]}"
            self.report.refused.append(f"{name}: {why}")
            return None
        losses = tuple(filter(None, answer.headers.get("x-gate-loss", "").replace(" ", "").split(",")))
        received, response = exchanges[-1]
        own = scenario.caller in self._vendors[vendor].own and not any(turn.model for turn in scenario.feature.turns)
        if own and not losses and not _is_verbatim(sent, received.body):
            self.report.unreported.append(f"{name}: the body changed on the verbatim lane")
        return received, response, answer, losses

    def _check_refusal(self, name: str, answer: httpx.Response, place: str, sent: int) -> None:
        """The gateway itself must refuse the request, with the path of the field in the caller's body."""
        error = answer.json().get("error", {}) if answer.status_code == 400 else {}
        if sent or error.get("param") != place:
            why = f"{answer.status_code} {answer.text[:300]}; requests sent: {sent}"
            self.report.refused.append(f"{name}: not refused at {place}: {why}")

    def _check_arrival(
        self,
        name: str,
        needs: Iterable[Need],
        body: Mapping[str, Any],
        received: Received,
        losses: tuple[str, ...],
        vendor: str,
        ignored: tuple[str, ...],
    ) -> None:
        arrived = json.dumps(received.body, ensure_ascii=False)
        for path, mark in list_marks(body):
            if mark not in arrived and not _is_lost(path, losses):
                self.report.unreported.append(f"{name}: {path} ({mark}); reported: {losses}")
        for path, texts in list_thinking(body):
            if texts and not any(_dump(text) in arrived for text in texts) and not _is_lost(path, losses):
                self.report.unreported.append(f"{name}: the thinking at {path}; reported: {losses}")
        for need in needs:
            place = need.anthropic if vendor == "anthropic" else need.gemini
            if _is_lost(need.name, losses):
                continue
            value = find(body, need.name) if need.value is ... else need.value
            if place is None or place in ignored:
                there = False
            elif callable(place):
                there = place(received.body)
            else:
                there = bool(find(received.body, place) == value)
            if not there:
                self.report.unreported.append(f"{name}: {need.name} = {value!r}; reported: {losses}")

    def _compare(
        self, name: str, scenario: Scenario, view: View, said: Any, vendor: Vendor, names: Mapping[str, str]
    ) -> None:
        wanted = _restore_names(merge(vendor.items(said)), names)
        seen = view.items
        if scenario.caller == "chat":
            wanted, seen = _collect(wanted), _collect(seen)
        if not scenario.feature.shows:
            wanted, seen = (merge(one for one in items if one[0] != "thinking") for items in (wanted, seen))
        thought = vendor.usage(said)[3] > 0 and "only-redacted" not in scenario.feature.name
        asked = scenario.feature.shows and (scenario.caller != "chat" or vendor.shows_in_chats)
        if asked and thought and not any(kind == "thinking" for kind, _ in wanted):
            self.report.poorer.append(
                f"{name}: the caller asked to see thinking, and the upstream was not asked for it"
            )
        if wanted != seen:
            self.report.poorer.append(f"{name}: saw {seen}, not {wanted}")
        if view.usage != vendor.usage(said):
            self.report.poorer.append(f"{name}: usage {view.usage}, not {vendor.usage(said)}")
        if view.finish != vendor.finish(said, scenario.caller):
            self.report.poorer.append(f"{name}: finish {view.finish}, not {vendor.finish(said, scenario.caller)}")


def find_vendor(model: str) -> str:
    """The name of the vendor of a model."""
    return {"gemini": "gemini", "claude": "anthropic"}.get(model.partition("-")[0], "openai")


def _restore_names(items: Iterable[tuple[str, Any]], names: Mapping[str, str]) -> tuple[tuple[str, Any], ...]:
    """`items` with the caller's names of tools: the upstream may have got others."""
    return tuple(
        (kind, (names.get(value[0], value[0]), value[1])) if kind == "call" else (kind, value) for kind, value in items
    )


def _address(caller: Caller, body: Mapping[str, Any], model: str, stream: bool) -> tuple[str, dict[str, Any]]:
    if caller == "generate":
        method = "streamGenerateContent?alt=sse" if stream else "generateContent"
        return f"/v1beta/models/{model}:{method}", dict(body)
    sent = {"model": model, **body} | ({"stream": True} if stream else {})
    if caller == "chat":
        return "/v1/chat/completions", sent | ({"stream_options": {"include_usage": True}} if stream else {})
    return ("/v1/responses" if caller == "responses" else "/v1/messages"), sent


def _dump(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)[1:-1]


def _is_verbatim(sent: Mapping[str, Any], received: Any) -> bool:
    return {**sent, "model": ""} == {**received, "model": ""}


def _is_lost(path: str, losses: tuple[str, ...]) -> bool:
    """Whether a loss names this path, something around it, or something in it."""
    return any(f"{path}.".startswith(f"{loss}.") or f"{loss}.".startswith(f"{path}.") for loss in losses)


def _collect(items: Iterable[tuple[str, Any]]) -> tuple[tuple[str, Any], ...]:
    """By kind, as in a chat message, which has one text, one thinking and a list of calls."""
    order = ("thinking", "text", "call")
    return merge(sorted(items, key=lambda item: order.index(item[0])))
