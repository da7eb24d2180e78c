"""A gateway around one wrapper: the reference format, the reference provider in both lanes, and a scripted upstream.

The same request is sent with and without the wrapper, so that the wrapper causes every difference.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, Final, Literal

from tornado_gate.config.model import ModelEntry, ModelTarget, PluginOptions, ProviderConfig, Secret
from tornado_gate.plugins.host import PluginHost
from tornado_gate.testing.answer_texts import join_texts
from tornado_gate.testing.reference import FAILING_MODEL, ReferenceHttpProvider, answer_upstream
from tornado_gate.testing.reference_format import PATH, WIRE_FORMAT, ReferenceFormat
from tornado_gate.testing.scripted_upstream import (
    Endless,
    Fault,
    ReceivedRequest,
    ScriptedUpstream,
    UpstreamAnswer,
    json_answer,
    sse_answer,
)
from tornado_gate.testing.stage import CallerAnswer, CallerRequest, Stage, open_stage
from tornado_gate.types.value import Value, replace

Lane = Literal["common", "verbatim"]
LANES: Final[tuple[Lane, ...]] = ("common", "verbatim")
WRAPPER: Final = "wrapper-under-test"
KEY: Final = "sk-reference-upstream-key-0123456789"
CLOSE_SECONDS: Final = 3.0
OFFERED_BYTES: Final = 32 * 1024 * 1024
MOST_BYTES: Final = 12 * 1024 * 1024
STALLED_SECONDS: Final = 0.25
_ERROR: Final = b'{"error": {"message": "reference fault", "code": "fault"}}'


class Way(Value, frozen=True, kw_only=True):
    """A kind of response: the model, and the upstream's response in place of its usual one."""

    name: str
    answer: UpstreamAnswer | None = None
    body: Mapping[str, Any] = {}
    model: str = ""


def list_ways() -> list[Way]:
    """Return responses of all kinds: whole and streamed, refused, failed, broken, in chunks, and of a hook that raises."""
    made = UpstreamAnswer(steps=(_ERROR,))
    frames = render_words(("Half ", "an ", "answer"))
    ways = [
        Way(name="a whole answer"),
        Way(name="a stream", body={"stream": True}),
        Way(name="a refused body", body={"ask": 1}),
        Way(name="the same answer again"),
        Way(name="an upstream that resets the connection", answer=UpstreamAnswer(steps=(Fault.RESET,))),
        Way(name="bad JSON of the upstream", answer=UpstreamAnswer(steps=(b"{",))),
        Way(name="a hook of the provider that raises", model=FAILING_MODEL),
        Way(
            name="a stream that breaks",
            body={"stream": True},
            answer=replace(frames, steps=(*frames.steps[:2], Fault.RESET)),
        ),
        Way(name="a stream byte by byte", body={"stream": True}, answer=cut_bytes(frames)),
    ]
    for status in (400, 401, 429, 500):
        headers = {"Retry-After": "7"} if status == 429 else {}
        answer = replace(made, status=status, headers=headers)
        ways.append(Way(name=f"status {status} of the upstream", answer=answer))
        ways.append(Way(name=f"status {status} for a stream", body={"stream": True}, answer=answer))
    return ways


def render_words(words: Sequence[str], *, streamed: bool = True) -> UpstreamAnswer:
    """Return the response of the reference upstream with these words, on the common lane."""
    return (
        sse_answer(*({"word": word} for word in words), {"why": "stop"})
        if streamed
        else json_answer({"words": list(words)})
    )


def cut_bytes(answer: UpstreamAnswer) -> UpstreamAnswer:
    """Split a response into single bytes."""
    return replace(answer, steps=tuple(bytes([byte]) for byte in answer.body))


class WrapperSite:
    """The gateway. `answer` is the upstream's response; None: the usual one."""

    def __init__(self, stage: Stage, upstream: ScriptedUpstream) -> None:
        self.stage, self.upstream = stage, upstream
        self.answer: UpstreamAnswer | None = None

    def respond(self, request: ReceivedRequest) -> UpstreamAnswer:
        """Return the upstream's response to a request of either lane."""
        if self.answer is not None:
            return self.answer
        if request.path.endswith("/reference") and "kind" in (request.json or {}):
            return answer_upstream(request)
        if (request.json or {}).get("stream"):
            return answer_upstream(request)
        return json_answer({"answer": "".join(_USUAL_WORDS)})

    def request(self, lane: Lane, body: Mapping[str, Any], model: str = "") -> CallerRequest:
        name = f"{lane}-{model or 'usual'}"
        return CallerRequest(method="POST", path=PATH, body={"model": name, "ask": "Hello", **body})

    async def send(self, lane: Lane, way: Way) -> CallerAnswer:
        """Return the caller's response in a lane."""
        self.upstream.forget()
        self.answer = way.answer
        return await self.stage.send(self.request(lane, way.body, way.model))

    def find_failures(self) -> dict[str, str]:
        """Return the plugins that failed, with the reasons, except for the provider's own exception."""
        failures = self.stage.services.gate.host.failures
        return {name: text for name, (_, text) in failures.items() if name not in LANES}

    async def leave(self, lane: Lane, *, streamed: bool) -> str:
        """Leave in the middle of a response. Returns the problem afterwards, or ""."""
        self.upstream.forget()
        self.stage.mark_calm()
        frames = render_words(("Half ", "an ", "answer"))
        steps = (*frames.steps[:2], Fault.HANG) if streamed else (Fault.HANG,)
        self.answer = replace(frames, steps=steps)
        try:
            async with asyncio.timeout(CLOSE_SECONDS), self.stage.holding(self.request(lane, {"stream": streamed})):
                await self.upstream.arrived.wait()
        except TimeoutError:
            return "the request did not reach the upstream"
        try:
            async with asyncio.timeout(CLOSE_SECONDS):
                await self.upstream.received[0].ended.wait()
        except TimeoutError:
            return "the connection to the upstream stayed open"
        left = await self.stage.find_left_tasks()
        return f"tasks still run: {', '.join(left)}" if left else ""

    async def stall(self, lane: Lane) -> int:
        """Return the number of bytes that the upstream can send in a stream to a caller who does not read."""
        self.upstream.forget()
        frame = render_words(("word " * 1000,)).steps[0]
        assert isinstance(frame, bytes)
        piece = frame * 6
        self.answer = UpstreamAnswer(
            steps=(Endless(piece, OFFERED_BYTES), Fault.HANG), content_type="text/event-stream"
        )
        async with self.stage.holding(self.request(lane, {"stream": True})):
            await self.upstream.arrived.wait()
            (received, *_) = self.upstream.received
            before = -1
            while received.sent != before and received.sent < OFFERED_BYTES:
                before = received.sent
                await asyncio.sleep(STALLED_SECONDS)
        return received.sent


_USUAL_WORDS: Final = ("Grüße ", "vom ", "Prüfstand ", "漢字 ", "🙂.")


@asynccontextmanager
async def open_site(
    add: Callable[[PluginHost], str] | None, options: PluginOptions | None = None
) -> AsyncIterator[WrapperSite]:
    """Open a gateway with a wrapper. `add` adds it to the host and returns its name; None: no wrapper."""
    host = PluginHost()
    name = add(host) if add else ""
    for other in list(host.plugins):
        if other != name:
            del host.plugins[other]
    host.add("reference", ReferenceFormat)
    host.add("common", ReferenceHttpProvider())
    host.add("verbatim", ReferenceHttpProvider(frozenset({WIRE_FORMAT})))
    site: list[WrapperSite] = []
    async with AsyncExitStack() as closing:

        def respond(request: ReceivedRequest) -> UpstreamAnswer:
            return site[0].respond(request)

        upstream = await closing.enter_async_context(ScriptedUpstream(respond).serving())
        providers = [
            ProviderConfig(name=lane, plugin=lane, base_url=upstream.url, api_key=Secret(KEY)) for lane in LANES
        ]
        models = {
            f"{lane}-{model}": ModelEntry(name=f"{lane}-{model}", targets=(ModelTarget(provider=lane, model=model),))
            for lane in LANES
            for model in ("usual", FAILING_MODEL)
        }
        plugin_options = {name: options or PluginOptions()} if name else {}
        stage = await closing.enter_async_context(open_stage(host, models, providers, plugin_options=plugin_options))
        site.append(WrapperSite(stage, upstream))
        yield site[0]


def describe_answer(answer: CallerAnswer) -> dict[str, Any]:
    """Return the parts of a response that must be the same with and without a wrapper. Streams are compared by texts,
    not by frames.
    """
    kept = ("content-type", "retry-after", "x-gate-loss")
    headers = {name: answer.headers[name] for name in kept if name in answer.headers}
    body: Any = answer.body.decode("utf-8", "replace")
    if answer.content_type == "text/event-stream":
        body = join_texts(answer.body)
    return {"status": answer.status, **headers, "broken": answer.broken, "body": body}


def install(name: str) -> Callable[[PluginHost], str]:
    """Return an `add` for `open_site` with an installed plugin."""
    return lambda _host: name


def add_object(plugin: Any) -> Callable[[PluginHost], str]:
    """Return an `add` for `open_site` with a module or class that is not installed."""

    def add(host: PluginHost) -> str:
        host.add(WRAPPER, plugin)
        return WRAPPER

    return add
