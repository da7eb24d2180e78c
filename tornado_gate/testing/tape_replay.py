"""The replay of a tape: the recorded request through a gateway of this code, with an upstream that plays the recorded bytes.

A tape is a fixture of a test: ``check_tape(Path("tests/tapes/weather.jsonl"))`` fails if the gateway sends another request to
the upstream, or another response to the caller, than it did when the tape was recorded.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from tornado_gate.codec.secret_words import MASK, mask_address
from tornado_gate.config.model import FetchRules, ModelEntry, ModelTarget, ProviderConfig, Secret
from tornado_gate.config.routing import RetriesConfig, RetryBudget
from tornado_gate.errors import ConfigError
from tornado_gate.plugins.host import PluginHost
from tornado_gate.tapes.recorder import redact_headers
from tornado_gate.tapes.tape import Exchange, Tape, TapeError, TapeRequest, read_tape
from tornado_gate.tasks.record import TaskRecord
from tornado_gate.testing.answer_texts import find_main_text
from tornado_gate.testing.differences import describe_difference
from tornado_gate.testing.scripted_upstream import Fault, Pause, ReceivedRequest, ScriptedUpstream, Step, UpstreamAnswer
from tornado_gate.testing.session_player import SessionPlayer
from tornado_gate.testing.stage import CallerAnswer, CallerRequest, Stage, open_stage
from tornado_gate.testing.tape_values import is_form, read_body, replace_made_values
from tornado_gate.types import ResponseRules
from tornado_gate.types.value import Value

TASK_SECONDS: Final = 30.0
"""The longest time that a replayed video task may take. Its polls do not wait as they did then."""
REPLAY_KEY: Final = "replayed-upstream-key-0123456789"
_UNSENT: Final = frozenset(
    {
        *("host", "content-length", "transfer-encoding", "connection", "keep-alive", "accept-encoding", "expect"),
        *("authorization", "x-gate-tape", "upgrade", "te", "trailer", "content-encoding", "date", "server"),
    }
)
"""Headers of one connection, or of the gateway that recorded."""
_CHANGING: Final = _UNSENT | {
    "x-request-id",
    "request-id",
    "traceparent",
    "tracestate",
    "user-agent",
    "idempotency-key",
    "sec-websocket-key",
}
"""Headers of requests to upstreams that are different in each request, or with each version."""
_COMPARED: Final = ("content-type", "retry-after")
_UNCOMPARED: Final = ("x-gate-cost", "x-gate-tape")
"""Headers of responses that are compared, besides ``x-gate-…``, and those of the latter that are not: prices change."""


class Replay(Value, frozen=True, kw_only=True):
    """The result of a replay. `differences` are texts; a line with - is on the tape, a line with + is new. () if all is equal."""

    tape: Tape
    received: tuple[ReceivedRequest, ...]
    answer: CallerAnswer
    differences: tuple[str, ...]


def check_tape(path: Path, *, with_times: bool = False) -> Replay:
    """Replay a tape, for tests. `with_times`: the upstream waits as it did then. Raises AssertionError with all differences."""
    replay = replay_tape(path, with_times=with_times)
    if replay.differences:
        raise AssertionError(f"{path} has another result than recorded:\n" + "\n".join(replay.differences))
    return replay


def replay_tape(path: Path, *, with_times: bool = False) -> Replay:
    """Replay a tape and compare. Not inside an event loop; there `replay` is awaited. Raises TapeError."""
    return asyncio.run(replay(read_tape(path), with_times=with_times))


async def replay(tape: Tape, *, with_times: bool = False) -> Replay:
    """Send the recorded request through a gateway with the recorded targets, and compare. Raises TapeError."""
    request = check_replayable(tape)
    if tape.messages:
        return await _replay_session(tape, request)
    exchanges = [tape.exchanges[number] for number in sorted(tape.exchanges)]
    played = iter(exchanges)

    def play(_: ReceivedRequest) -> UpstreamAnswer:
        exchange = next(played, None)
        if exchange is None:
            return UpstreamAnswer(steps=(b'{"error": {"message": "the tape has no further response"}}',), status=599)
        return play_exchange(exchange, with_times=with_times)

    async with ScriptedUpstream(play).serving() as upstream:
        answer, task = await _send_request(tape, request, upstream.url)
        received = tuple(upstream.received)
    differences = [*compare_requests(exchanges, received), *compare_answers(tape, answer), *_compare_tasks(tape, task)]
    return Replay(tape=tape, received=received, answer=answer, differences=tuple(differences))


def check_replayable(tape: Tape) -> TapeRequest:
    """Return the request of a tape that has everything for a replay. Raises TapeError."""
    reason = ""
    if tape.request is None:
        reason = "it has no request: a guard or a check refused it"
    elif tape.end.get("truncated"):
        reason = f"{tape.end.get('omitted_bytes')} bytes are missing; record with a larger tapes.tape_bytes"
    elif tape.end.get("withheld"):
        reason = "a guard has replaced a part of the response, so that the response is not on the tape"
    elif tape.request.unrecorded:
        reason = f"it does not have {tape.request.unrecorded}"
    elif tape.end.get("outcome") == "left":
        reason = "the task had not ended when the recording ended"
    elif tape.end.get("outcome") == "aborted":
        reason = "the caller has left before the end of the response"
    elif not tape.exchanges or not tape.targets:
        reason = "no upstream got the request over HTTP"
    if reason or tape.request is None:
        raise TapeError(f"The tape cannot be replayed: {reason}.")
    return tape.request


def play_exchange(exchange: Exchange, *, with_times: bool) -> UpstreamAnswer:
    """Return the response that the upstream gave, in the same chunks."""
    steps: list[Step] = []
    moments = [exchange.at, *(moment for moment, _ in exchange.chunks)]
    for (before, now), (_, data) in zip(pairwise(moments), exchange.chunks, strict=True):
        steps += [Pause(now - before), data] if with_times else [data]
    if exchange.fault and (not exchange.status or not exchange.fault.startswith("closed by the gateway")):
        steps.append(Fault.RESET)
    headers = {name: value for name, value in exchange.headers.items() if _is_sent(name, value)}
    content_type = headers.pop("content-type", "")
    return UpstreamAnswer(
        steps=steps, status=exchange.status or 502, content_type=content_type or "application/json", headers=headers
    )


async def _replay_session(tape: Tape, request: TapeRequest) -> Replay:
    """Open the recorded session, and pass its messages in the recorded order. Compare what each side gets."""
    headers = {name: value for name, value in request.headers.items() if _is_sent(name, value)}
    shown = {name: value for name, value in headers.items() if not name.lower().startswith("sec-websocket-")}
    player = SessionPlayer(tape.messages)
    async with player.serving() as url, _open_stage(tape, url) as stage:
        await player.play(stage.connect(request.path, shown))
    exchanges = [tape.exchanges[number] for number in sorted(tape.exchanges)]
    differences = compare_requests(exchanges, tuple(player.received))
    for kind, what in (
        ("upstream_sent", "The messages to the upstream"),
        ("answer_message", "The messages to the caller"),
    ):
        before = [read_body(text.encode(), "") for known, text in tape.messages if known == kind]
        after = [read_body(text.encode(), "") for known, text in player.passed if known == kind]
        if text := _find_difference(before, after):
            differences.append(f"{what}:\n{text}")
    answer = CallerAnswer(status=tape.status, headers={}, body=b"", broken=False)
    return Replay(tape=tape, received=tuple(player.received), answer=answer, differences=tuple(differences))


def _compare_tasks(tape: Tape, task: TaskRecord | None) -> list[str]:
    """Return the difference of the ends of a video task. One whose video is at another host fails here without its file."""
    if not tape.task or tape.fetched:
        return []
    before = f"{tape.end['task_status']} {tape.end['error_code']}".strip()
    after = "has not ended" if task is None else f"{task.status} {task.error_code}".strip()
    return [] if before == after else [f"The task:\n- {before}\n+ {after}"]


async def _send_request(tape: Tape, request: TapeRequest, url: str) -> tuple[CallerAnswer, TaskRecord | None]:
    """Send the recorded request. Return the response, and the task that it has created, when it has ended."""
    headers = {name: value for name, value in request.headers.items() if _is_sent(name, value)}
    caller_request = CallerRequest(method=request.method, path=request.path, headers=headers, body=request.body)
    async with _open_stage(tape, url) as stage:
        ended: asyncio.Future[TaskRecord] = asyncio.get_running_loop().create_future()
        stage.services.tasks.engine.on_end = lambda record: None if ended.done() else ended.set_result(record)
        answer = await stage.send(caller_request)
        if not tape.task or answer.status >= 400:
            return answer, None
        await asyncio.wait([ended], timeout=TASK_SECONDS)
        return answer, ended.result() if ended.done() else None


@asynccontextmanager
async def _open_stage(tape: Tape, url: str) -> AsyncIterator[Stage]:
    """Serve a gateway with the targets of a tape, whose upstream is at `url`. Raises TapeError."""
    models, providers = make_entries(tape, url)
    host = PluginHost()
    names = {tape.head["format"], *(entry.plugin for entry in providers)}
    if missing := sorted(names - host.plugins.keys()):
        raise TapeError(f"The tape cannot be replayed: the plugin '{missing[0]}' is not installed.")
    for name in list(host.plugins):
        if name not in names:
            del host.plugins[name]
    rules = ResponseRules(store=tape.head["store"], copies=tape.head["copies"])
    rest: dict[str, Any] = {"dialect": tape.head["dialect"], "responses": rules}
    if tape.task:
        rest["fetch"] = FetchRules(schemes=frozenset())  # files at other hosts are not fetched
    try:
        async with open_stage(host, models, providers, **rest) as stage:
            yield stage
    except ConfigError as error:
        what = "; ".join(f"{'.'.join(map(str, path))} {message}" for path, message in error.faults)
        raise TapeError(f"The tape cannot be replayed: its provider entry is not valid any more: {what}.") from None


def make_entries(tape: Tape, url: str) -> tuple[dict[str, ModelEntry], list[ProviderConfig]]:
    """Return entries of models and providers with the targets of a tape, in their order, with their upstream at `url`."""
    targets = [
        target for before, target in pairwise([{}, *tape.targets]) if _name_target(before) != _name_target(target)
    ]
    repeated = len(tape.targets) - len(targets)
    retries = RetriesConfig(
        same_target=repeated, backoff_seconds=0.01, budget=RetryBudget(share=10.0, minimum=repeated + 1)
    )
    names = [tape.head["model"], *(f"replayed-target-{number}" for number in range(2, len(targets) + 1))]
    models = {
        name: ModelEntry(
            name=name,
            targets=(ModelTarget(provider=target["provider"], model=target["upstream_model"]),),
            fallback=tuple(names[1:]) if name == names[0] else (),
            facts=target["facts"],
            retries=retries,
        )
        for name, target in zip(names, targets, strict=True)
    }
    providers = {
        target["provider"]: ProviderConfig(
            name=target["provider"], plugin=target["plugin"], base_url=url + urlsplit(target["base_url"]).path,
            api_key=Secret(REPLAY_KEY), settings=target["settings"],
            headers={name: Secret(value) for name, value in target["headers"].items() if value != MASK},
        )
        for target in targets
    }  # fmt: skip
    return models, list(providers.values())


def _name_target(target: Mapping[str, Any]) -> tuple[Any, ...]:
    return target.get("provider"), target.get("upstream_model")


def _is_sent(name: str, value: str) -> bool:
    return name.lower() not in _UNSENT and value != MASK


def compare_requests(recorded: list[Exchange], received: tuple[ReceivedRequest, ...]) -> list[str]:
    """Return the differences of the requests to the upstream."""
    differences = []
    if len(recorded) != len(received):
        differences.append(f"The upstream got {len(received)} requests; the tape has {len(recorded)}.")
    for number, (exchange, now) in enumerate(zip(recorded, received, strict=False), 1):
        before, after = _describe_recorded(exchange.request), _describe_received(now)
        masked = {name for request in (before, after) for name, value in request["headers"].items() if value == MASK}
        for request in (before, after):
            request["headers"] = {name: value for name, value in request["headers"].items() if name not in masked}
        if text := _find_difference(before, after):
            differences.append(f"Request {number} to the upstream:\n{text}")
    return differences


def _describe_recorded(request: TapeRequest) -> dict[str, Any]:
    parts = urlsplit(request.path)
    path = f"{parts.path}?{parts.query}" if parts.query else parts.path
    return _describe_request(request.method, path, request.headers, request.body)


def _describe_received(request: ReceivedRequest) -> dict[str, Any]:
    return _describe_request(
        request.method, mask_address(request.url), redact_headers(request.headers, None), request.body
    )


def _describe_request(method: str, path: str, headers: Mapping[str, str], body: bytes) -> dict[str, Any]:
    lowered = {name.lower(): value for name, value in headers.items()}
    shown = {name: value for name, value in lowered.items() if name not in _CHANGING}
    if is_form(lowered.get("content-type", "")):
        shown["content-type"] = "multipart/form-data"  # each form has its own boundary
    return {"line": f"{method} {path}", "headers": shown, "body": read_body(body, lowered.get("content-type", ""))}


def compare_answers(tape: Tape, answer: CallerAnswer) -> list[str]:
    """Return the differences of the responses to the caller. Guards divide a stream into other events: only its text counts."""
    before = _describe_answer(tape.status, tape.headers, tape.body)
    after = _describe_answer(answer.status, answer.headers, answer.body)
    if tape.end.get("guarded") and answer.content_type == "text/event-stream":
        before["body"], after["body"] = find_main_text(tape.body), find_main_text(answer.body)
    text = _find_difference(before, after)
    return [f"The response to the caller:\n{text}"] if text else []


def _describe_answer(status: int, headers: Mapping[str, str], body: bytes) -> dict[str, Any]:
    lowered = {name.lower(): value for name, value in headers.items()}
    names = (name for name in sorted(lowered) if name.startswith("x-gate-") or name in _COMPARED)
    shown = {name: lowered[name] for name in names if name not in _UNCOMPARED}
    return {"status": status, "headers": shown, "body": read_body(body, lowered.get("content-type", ""))}


def _find_difference(before: Any, after: Any) -> str:
    if before == after:
        return ""
    before, after = replace_made_values(before), replace_made_values(after)
    return "" if before == after else describe_difference(after, before)
