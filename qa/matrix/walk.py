"""Send one field at a time through a format and a provider, and classify the result. No request leaves the process.

The steps are those of `tornado_gate.pipeline.pipeline` up to the upstream request: the verbatim lane when the provider
supports the route's wire format, else the common lane, including the core's handling of signatures between the two.
"""

from __future__ import annotations

import asyncio
import dataclasses
import json
import re
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Final

from qa.matrix.fields import ABSENT, MODEL, Field, find_value
from qa.matrix.responses import CONVERSATION, PREVIOUS
from qa.matrix.trips import Shelf, Trip, arrived, marks, no_chance, trip_of, uploads
from qa.matrix.ways import Upstream, Way
from tornado_gate.errors import GateError
from tornado_gate.hookspecs import Capabilities, ProviderEntry
from tornado_gate.pipeline import signatures
from tornado_gate.plugins.host import PluginHost
from tornado_gate.plugins.lanes import FormatLane, ProviderLane
from tornado_gate.types import (
    NO_TARGET,
    Call,
    Caller,
    ChatRequest,
    MediaRequest,
    Request,
    Route,
    Target,
    UpstreamRequest,
    ValueGroup,
    WireRequest,
    replace,
)
from tornado_gate.types.value import Value
from tornado_gate_openai.format.stored import conversation_store

SILENT: Final = "SILENT"
MISNAMED: Final = "MISNAMED"
BAD: Final = (SILENT, MISNAMED)

PLUGINS: Final = Path(__file__).parents[2] / "plugins"


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result for a field: `word` is printed on the page, `detail` in a failing test.

    `others` are the other losses of the same body; `forwarded` says that it took the verbatim lane.
    """

    word: str
    detail: str = ""
    others: tuple[str, ...] = ()
    forwarded: bool = False


@dataclass(slots=True)
class Recollection:
    """An implementation of `call.memory` with a dict, for one account."""

    values: dict[str, Any] = field(default_factory=dict)

    async def get(self, name: str) -> Any | None:
        return self.values.get(name)

    async def get_many(self, names: Iterable[str]) -> dict[str, Any]:
        return {name: self.values[name] for name in names if name in self.values}

    async def find_many(self, names: Iterable[str]) -> dict[str, Any]:
        return await self.get_many(names)

    async def put(self, name: str, value: Any, seconds: float) -> None:
        self.values[name] = value

    async def put_many(self, values: Mapping[str, Any], seconds: float) -> None:
        self.values.update(values)

    async def delete(self, name: str) -> bool:
        return self.values.pop(name, None) is not None

    async def read_group(self, head: str) -> ValueGroup:
        return ValueGroup({name: value for name, value in sorted(self.values.items()) if name.startswith(head)}, 0)

    async def extend_group(self, head: str, values: Mapping[str, Any], seconds: float, *, new: bool = False) -> bool:
        self.values.update(values)
        return True

    async def delete_group(self, head: str) -> bool:
        return await self.delete(head)


@cache
def host() -> PluginHost:
    return PluginHost()


@cache
def door(way: Way) -> tuple[FormatLane, Route]:
    """The format plugin that serves a way, and its route. Raises AssertionError when there is none."""
    for name in sorted(host().plugins):
        plugin = host().load(name)
        assert not plugin.error, f"{name}: {plugin.error}"
        if "format" in plugin.hooks:
            lane = FormatLane(host(), plugin, [])
            for route in lane.routes:
                if route.method == "POST" and route.path == way.path:
                    return lane, route
    raise AssertionError(f"no format plugin serves {way.path}; install the plugin that does")


class Walk:
    """One way and one upstream."""

    def __init__(self, way: Way, upstream: Upstream) -> None:
        self.way, self.upstream = way, upstream
        self.format, self.route = door(way)
        plugin = host().load(upstream.plugin)
        assert not plugin.error, plugin.error
        self.provider = ProviderLane(host(), plugin, [])
        self.capabilities, self.target = self._configured()
        self.memory = Recollection()
        self.previous = self.conversation = ""

    def _configured(self) -> tuple[Capabilities, Target]:
        upstream = self.upstream
        entry = ProviderEntry(
            name=upstream.name, base_url=upstream.base_url, api_key="secret", settings=upstream.settings
        )
        able = self.provider.configure(entry)
        target = Target(
            provider=upstream.name,
            plugin=upstream.plugin,
            model=MODEL,
            upstream_model=upstream.model,
            base_url=upstream.base_url if able.base_url is None else able.base_url,
            api_key="secret",
            settings=entry.settings if able.settings is None else able.settings,
            facts=upstream.facts,
        )
        return able, target

    @property
    def verbatim(self) -> bool:
        """Whether a body can be forwarded verbatim; its format may still decline."""
        speaks = self.route.wire_format in self.capabilities.speaks and self.operation == self.route.operation
        return speaks and self.format.forwards and not self.upstream.translated

    @property
    def operation(self) -> str:
        """The first operation of the route that the model supports; "" for none."""
        offered = self.capabilities.get_operations(self.target.upstream_model)
        return next((operation for operation in self.route.operations if operation in offered), "")

    @property
    def served(self) -> bool:
        return bool(self.operation)

    async def push(self, body: Mapping[str, Any], *, strict: bool = False) -> Trip:
        """Translate `body` up to the upstream request. A GateError is returned as the trip's `error`."""
        call = self._call(strict)
        try:
            request, outgoing, forwarded = await self._stops(call, self._wire(body))
            return await trip_of(call, request, outgoing, forwarded=forwarded)
        except GateError as error:
            return Trip(losses=tuple(call.losses), error=error)

    def _wire(self, body: Mapping[str, Any]) -> WireRequest:
        whole = WireRequest(
            route=self.route,
            path=self.route.path.replace("{model}", MODEL),
            path_arguments=self.way.path_arguments,
            query={},
            headers=self.way.headers,
            raw=b"",
            json={},
        )
        if self.way.form:
            fields_of_text, files = uploads(body)
            return replace(whole, json=fields_of_text, files=files, form=True)
        raw = json.dumps(body).replace(PREVIOUS, self.previous).replace(CONVERSATION, self.conversation).encode()
        return replace(whole, raw=raw, json=json.loads(raw))

    def _call(self, strict: bool) -> Call:
        return Call(
            id="req_matrix",
            operation=self.operation,
            format=self.format.name,
            model=MODEL,
            caller=Caller(id="key_matrix", account="matrix"),
            target=self.target,
            strict=strict,
            headers=self.way.headers,
            memory=self.memory,
            fetcher=Shelf() if self.way.fetches else None,
            facts=self.upstream.facts,
        )

    async def _stops(self, call: Call, wire: WireRequest) -> tuple[Request, UpstreamRequest, bool]:
        """The request, the upstream request, and whether the verbatim lane was used."""
        request: Request
        forwarded = await self.format.forward_request(call, wire) if self.verbatim else None
        if forwarded is not None:
            request = forwarded
        else:
            alone = replace(call, target=NO_TARGET, losses=[])
            request = await self.format.translate_request(alone, wire)
            call.losses.extend(alone.losses)
            request = await signatures.restore_signatures(call, request, signatures=self.capabilities.signatures)
        return request, await self.provider.translate_request(call, request), forwarded is not None

    async def remember(self) -> None:
        """Store a turn answered by the embedded provider, and a conversation, for rows that continue one."""
        if self.way.name != "responses":
            return
        teller = Walk(self.way, Upstream(name="local", plugin="local", model="local-chat"))
        teller.memory = self.memory
        body = {"model": MODEL, "input": "mark-before"}
        call = teller._call(strict=False)
        request, outgoing, _ = await teller._stops(call, teller._wire(body))
        incoming = await teller.provider.call_upstream(call, outgoing)
        events = teller.provider.translate_response(call, request, incoming)
        reply = self.format.translate_response(call, request, events)
        self.previous = json.loads(await _whole(reply.chunks))["id"]
        said = {"role": "user", "content": "mark-before"}
        self.conversation = (await conversation_store.create(call, [said], {})).id


async def _whole(chunks: AsyncIterator[bytes]) -> bytes:
    return b"".join([chunk async for chunk in chunks])


def about(name: str, at: str) -> bool:
    """Whether a reported name is the field at `at`, or a place above or below it.

    Levels may be missing in the name where the common types have none: ``tools.0.strict`` for
    ``tools.0.function.strict``.
    """
    if name == at or at.startswith(f"{name}.") or name.startswith(f"{at}."):
        return bool(name)
    said, steps = name.split("."), at.split(".")
    left = iter(steps)
    return len(said) > 1 and said[0] == steps[0] and said[-1] == steps[-1] and all(step in left for step in said)


def classified(walk: Walk, row: Field, trip: Trip, bare: Trip) -> Outcome:
    """The outcome of `row`, from its trip and the trip of the body without it."""
    if bare.error is not None and _refused_around(row, trip, bare.error):
        return Outcome("refused", f"so is {bare.error.param}")
    if bare.error is not None:
        raise AssertionError(
            f"{row.name}: the body without the field is refused, correct the row's `without`: {bare.error.message}"
        )
    return dataclasses.replace(_fate(walk, row, trip, bare), forwarded=trip.forwarded)


def _refused_around(row: Field, trip: Trip, error: GateError) -> bool:
    """Whether the error names a place that contains the field, or the field that it needs."""
    if trip.error is None or trip.error.param != error.param or error.status != 400:
        return False
    return error.param == row.needs or row.at.startswith(f"{error.param}.")


def _fate(walk: Walk, row: Field, trip: Trip, bare: Trip) -> Outcome:
    if trip.error is not None:
        named = about(trip.error.param, row.at) and trip.error.status in (400, 404)
        return Outcome("refused" if named else MISNAMED, f"{trip.error.status} {trip.error.param}: {trip.error}")
    named_losses = [name for name in trip.losses if about(name, row.at)]
    strays = [name for name in trip.losses if name not in bare.losses and name not in named_losses]
    if not named_losses and trip.forwarded and _unchanged(row, trip):
        return Outcome("verbatim")
    missing = [mark for mark in marks(row.value) if not arrived(mark, trip.text)] if trip.text else []
    changed = trip.sent != bare.sent and not missing
    if named_losses:
        others = tuple(name for name in trip.losses if name not in named_losses)
        return Outcome("partly" if changed else "reported", ", ".join(named_losses), others)
    if changed:
        return Outcome("translated" if trip.text else "honoured", ", ".join(strays))
    if strays:
        return Outcome(MISNAMED, f"reported as {', '.join(strays)}")
    if trip.counted != bare.counted:
        return Outcome("counted")
    if row.idle is not None and (not row.idle.only or walk.upstream.plugin in row.idle.only):
        return Outcome(row.idle.kind)
    if not trip.text and _documented(walk.upstream.plugin, trip.request, bare.request):
        return Outcome("no effect")
    return Outcome(SILENT, f"not sent: {', '.join(missing)}" if missing else "the outgoing request is the same")


def _unchanged(row: Field, trip: Trip) -> bool:
    value = find_value(trip.body, row.at)
    return value is not ABSENT and value == row.value


def _documented(plugin: str, request: Request | None, bare: Request | None) -> bool:
    """Whether the plugin's README lists all differences of the requests as accepted without effect; for the embedded provider."""
    if not isinstance(request, ChatRequest | MediaRequest) or type(request) is not type(bare):
        return False
    changed = set(_differing(request, bare))
    return bool(changed) and changed <= without_effect(plugin)


def _differing(one: Any, other: Any, name: str = "") -> Iterator[str]:
    """The names of the differences of two requests, down to members of messages, parts and tools."""
    if one == other:
        return
    if isinstance(one, Value) and type(one) is type(other):
        for member in one.__struct_fields__:
            if member not in ("names", "asked", "id", "items"):  # not read by any provider
                yield from _differing(getattr(one, member), getattr(other, member), member)
    elif isinstance(one, tuple) and isinstance(other, tuple) and len(one) == len(other):
        for mine, theirs in zip(one, other, strict=True):
            yield from _differing(mine, theirs, name)
    elif name == "extra":
        yield from (key for key in {*one, *other} if one.get(key) != other.get(key))
    else:
        yield name


@cache
def without_effect(plugin: str) -> frozenset[str]:
    """The fields that a README lists under "Accepted, without effect", by the names of the common types."""
    text = (PLUGINS / plugin / "README.md").read_text(encoding="utf-8")
    _, _, after = text.partition("**Accepted, without effect.**")
    listed = after.partition("\n\n")[0]
    penalties = {"presence_penalty", "frequency_penalty"} if "the penalties" in listed else set()
    return frozenset(re.findall(r"`(\w+)`", listed)) | penalties


@cache
def outcomes(way: Way, upstream: Upstream) -> Mapping[Field, Outcome]:
    """The outcome of each field of a way at an upstream; "not served" when the upstream has no such operation."""
    rows = [row for group in way.groups for row in group.fields]
    walk = Walk(way, upstream)
    if not walk.served:
        return {row: Outcome("not served") for row in rows}

    async def all_rows() -> dict[Field, Outcome]:
        await walk.remember()
        return {row: classified(walk, row, await walk.push(row.body), await walk.push(row.without)) for row in rows}

    with no_chance():
        return asyncio.run(all_rows())


def strict_trips(way: Way, upstream: Upstream) -> Mapping[Field, Trip]:
    """The trips with x-gate-strict of the fields that are reported as lost."""
    lost = [row for row, outcome in outcomes(way, upstream).items() if outcome.word in ("reported", "partly")]
    walk = Walk(way, upstream)

    async def all_rows() -> dict[Field, Trip]:
        await walk.remember()
        return {row: await walk.push(row.body, strict=True) for row in lost}

    with no_chance():
        return asyncio.run(all_rows())
