"""The driver of the plugin under test: the gateway, its upstream, the recorder, and the plugin's configuration."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager

from tornado_gate.config.model import ModelEntry, ModelTarget, PluginOptions, ProviderConfig, Secret
from tornado_gate.hookspecs import Capabilities, ProviderEntry
from tornado_gate.plugins.host import PluginHost
from tornado_gate.plugins.lanes import ProviderLane
from tornado_gate.testing.conformance.examples import Example
from tornado_gate.testing.conformance.recorder import RecordedCall, Recorder
from tornado_gate.testing.declaration import Conformance
from tornado_gate.testing.reference import ReferenceProvider
from tornado_gate.testing.scripted_upstream import Fault, ReceivedRequest, ScriptedUpstream, UpstreamAnswer
from tornado_gate.testing.stage import CallerAnswer, Stage, open_stage
from tornado_gate.types import StreamEvent
from tornado_gate.types.value import Value, field, replace

API_KEY = "sk-upstream-key-that-only-the-upstream-may-see-0123456789"
RECORDER, REFERENCE = "conformance-recorder", "conformance-reference"
ENTRY = "checked"
VIDEO_SECONDS = 10.0
"""The maximum time for a video. The core may retry failed videos for minutes."""


Change = Callable[[int, UpstreamAnswer], UpstreamAnswer]


class Exchange(Value, frozen=True, kw_only=True):
    """A request of a caller with all its results."""

    example: Example
    answer: CallerAnswer
    calls: Sequence[RecordedCall] = ()
    received: Sequence[ReceivedRequest] = ()
    answers: Sequence[UpstreamAnswer] = ()
    failures: Mapping[str, str] = field(default_factory=dict)

    @property
    def lane(self) -> str:
        return self.calls[-1].lane if self.calls else "common"

    @property
    def is_stream(self) -> bool:
        return self.example.asks_stream or self.answer.content_type == "text/event-stream"

    @property
    def events(self) -> list[StreamEvent]:
        return [event for call in self.calls for event in call.events]


class Driver:
    """A driver of one provider. `change` returns the upstream's response number n from the usual response; None:
    unchanged.
    """

    def __init__(
        self,
        stage: Stage,
        upstream: ScriptedUpstream,
        recorder: Recorder,
        capabilities: Capabilities,
        setup: Conformance,
    ) -> None:
        self.stage, self.upstream, self.recorder = stage, upstream, recorder
        self.capabilities, self.setup = capabilities, setup
        self.api_key = API_KEY if setup.api_key is None else setup.api_key
        self.host = stage.services.gate.host
        self.answers: list[UpstreamAnswer] = []
        self._change: Change | None = None

    async def send(self, example: Example, change: Change | None = None) -> Exchange:
        """Send the request, and read the whole response."""
        self.begin(change, example)
        answer = await self.stage.send(example.make(model_name(example.operation)))
        if example.operation == "videos" and answer.status < 300:
            await self._wait_for_video()
        return self.end(example, answer)

    def begin(self, change: Change | None = None, example: Example | None = None) -> None:
        """Delete the records of earlier requests. The caller will send `example`."""
        self.stage.mark_calm()
        self.recorder.clear(example)
        self.upstream.forget()
        self.host.failures.clear()
        self.answers = []
        self._change = change

    def note_answer(self, usual: UpstreamAnswer) -> UpstreamAnswer:
        """Return the upstream's response in place of `usual`, and record `usual` in `answers`."""
        self.answers.append(usual)
        return self._change(len(self.answers) - 1, usual) if self._change else usual

    def end(self, example: Example, answer: CallerAnswer) -> Exchange:
        failures = self.find_failures()
        return Exchange(
            example=example, answer=answer, calls=tuple(self.recorder.calls), received=tuple(self.upstream.received),
            answers=tuple(self.answers), failures=failures,
        )  # fmt: skip

    def find_failures(self) -> dict[str, str]:
        """Return the plugins that failed since `begin`, with the reasons."""
        return {name: text for name, (_, text) in self.host.failures.items()}

    async def _wait_for_video(self) -> None:
        """Wait until the task of the last video has ended, at most `VIDEO_SECONDS`."""
        store, loop = self.stage.services.tasks.engine.store, asyncio.get_running_loop()
        end = loop.time() + VIDEO_SECONDS
        while loop.time() < end:
            (record, *_) = (await store.list("conformance", "", 1, "desc")).records
            if record.status in ("completed", "failed"):
                return
            await asyncio.sleep(0.01)


def only_first(answer: UpstreamAnswer) -> Change:
    """Return a change that sends `answer` to the first request, and the usual responses to the others."""
    return lambda number, usual: usual if number else answer


def split_bytes(answer: UpstreamAnswer) -> UpstreamAnswer:
    """Split a response into single bytes. Long responses continue in chunks of 7 bytes after the first kilobyte."""
    body, head = answer.body, answer.body[:1024]
    rest = body[1024:]
    step = 7 if len(rest) < 64 * 1024 else 8191
    pieces = [head[at : at + 1] for at in range(len(head))] + [rest[at : at + step] for at in range(0, len(rest), step)]
    return replace(answer, steps=tuple(pieces))


def join_bytes(answer: UpstreamAnswer) -> UpstreamAnswer:
    """Join a response into one chunk."""
    return replace(answer, steps=(answer.body,))


def hang_after(answer: UpstreamAnswer, share: float = 0.5) -> UpstreamAnswer:
    """Return the first part of a response, followed by silence."""
    return replace(answer, steps=(*cut(answer, share), Fault.HANG))


def reset_after(answer: UpstreamAnswer, share: float = 0.5) -> UpstreamAnswer:
    """Return the first part of a response, followed by a reset of the connection."""
    return replace(answer, steps=(*cut(answer, share), Fault.RESET))


def cut(answer: UpstreamAnswer, share: float) -> tuple[bytes, ...]:
    """Return the first part of the bytes of a response. If it has several frames, the frames stay whole."""
    steps = [step for step in answer.steps if isinstance(step, bytes)]
    if len(steps) > 1:
        return tuple(steps[: max(1, int(len(steps) * share))])
    return (answer.body[: max(1, int(len(answer.body) * share))],)


def model_name(operation: str) -> str:
    """Return the name of the kit's model for an operation of the plugin under test."""
    return f"checked-{operation.replace('_', '-')}"


def reference_name(operation: str) -> str:
    """Return the name of the kit's model of the reference provider."""
    return f"reference-{operation.replace('_', '-')}"


def choose_upstream_model(capabilities: Capabilities, setup: Conformance, operation: str) -> str:
    """Return the name of an upstream model that supports the operation: the plugin's own choice, else by its patterns."""
    if operation in setup.models:
        return setup.models[operation]
    for pattern, operations in capabilities.models.items():
        name = pattern.replace("*", "1")
        if operation in operations and operation in capabilities.get_operations(name):
            return name
    return "model-1"


def fill_names(value: object) -> object:
    """Replace ``{chat}`` and the like in settings by the names of models of the reference provider."""
    if isinstance(value, str) and value.startswith("{") and value.endswith("}"):
        return reference_name(value[1:-1])
    if isinstance(value, Mapping):
        return {name: fill_names(member) for name, member in value.items()}
    return value


def make_entry(plugin: str, setup: Conformance, url: str) -> ProviderConfig:
    """Return the provider entry of the plugin under test."""
    return ProviderConfig(
        name=ENTRY, plugin=plugin, base_url=url + setup.base_path,
        api_key=Secret(API_KEY if setup.api_key is None else setup.api_key),
        settings={name: fill_names(value) for name, value in setup.settings.items()},
    )  # fmt: skip


def make_host(names: Sequence[str], added: Mapping[str, object] | None = None) -> PluginHost:
    """Return a host with these installed plugins only, and with the plugins in `added`, by name."""
    host = PluginHost()
    for name in list(host.plugins):
        if name not in names:
            del host.plugins[name]
    for name, implementation in (added or {}).items():
        host.add(name, implementation)
    return host


def configure(host: PluginHost, name: str, entry: ProviderConfig) -> Capabilities:
    """Return the capabilities of the plugin with the entry of the kit. Raises GateError and ConfigError."""
    lane = ProviderLane(host, host.load(name), [])
    provider_entry = ProviderEntry(
        name=entry.name, base_url=entry.base_url, api_key=entry.api_key, headers=entry.headers, settings=entry.settings
    )
    return lane.configure(provider_entry)


def make_models(capabilities: Capabilities, setup: Conformance) -> dict[str, ModelEntry]:
    """Return one model for each operation of the plugin under test, and of the reference provider."""
    models = {}
    for operation in capabilities.operations:
        upstream = choose_upstream_model(capabilities, setup, operation)
        target = ModelTarget(provider=ENTRY, model=upstream)
        models[model_name(operation)] = ModelEntry(name=model_name(operation), targets=(target,))
    for operation in ReferenceProvider.OPERATIONS:
        target = ModelTarget(provider=REFERENCE, model=reference_name(operation))
        models[reference_name(operation)] = ModelEntry(name=reference_name(operation), targets=(target,))
    return models


@asynccontextmanager
async def open_driver(
    plugin: str,
    formats: Sequence[str],
    setup: Conformance,
    answers: Callable[[ReceivedRequest, Recorder], UpstreamAnswer],
    options: Mapping[str, PluginOptions] | None = None,
    added: Mapping[str, object] | None = None,
) -> AsyncIterator[Driver]:
    """Start a gateway with the provider `plugin`, these formats, and an upstream whose responses `answers` makes.

    `added` are plugins that are not installed, by name; `options` are the entries of plugins in conf.
    """
    recorder = Recorder()
    own = {RECORDER: recorder, REFERENCE: ReferenceProvider(), **(added or {})}
    host = make_host([plugin, *formats], own)
    async with AsyncExitStack() as closing:
        driver: list[Driver] = []

        def answer(request: ReceivedRequest) -> UpstreamAnswer:
            return driver[0].note_answer(answers(request, recorder))

        upstream = await closing.enter_async_context(ScriptedUpstream(answer).serving())
        entry = make_entry(plugin, setup, upstream.url)
        capabilities = configure(host, plugin, entry)
        providers = [entry, ProviderConfig(name=REFERENCE, plugin=REFERENCE)]
        stage = await closing.enter_async_context(
            open_stage(host, make_models(capabilities, setup), providers, plugin_options=dict(options or {}))
        )
        driver.append(Driver(stage, upstream, recorder, capabilities, setup))
        yield driver[0]
