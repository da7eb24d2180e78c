"""Video tasks as callers meet them: begun by a request, then shown, waited for, listed, fetched and deleted.

What happens to a task between those is `tasks/engine.py`'s business; a caller sees no task but its own account's.
"""

from __future__ import annotations

import base64
import hashlib
import secrets
import time
from collections.abc import AsyncIterator, Mapping
from typing import Any

import orjson

from tornado_gate.errors import InvalidField, NotFound, RateLimited, Unavailable
from tornado_gate.gateway.attempts import choose_target
from tornado_gate.gateway.gate import Gate
from tornado_gate.gateway.snapshot import ProviderInUse, Snapshot
from tornado_gate.http.fetch import pictures
from tornado_gate.plugins.host import FormatLane
from tornado_gate.storage.files import MediaFile, MediaStore
from tornado_gate.streams.events import aiter_events
from tornado_gate.tasks.engine import TaskEngine
from tornado_gate.tasks.record import TaskRecord, request_as_json
from tornado_gate.tasks.store import no_such_task
from tornado_gate.tasks.view import task_of
from tornado_gate.types import (
    Call,
    Data,
    FileSource,
    Link,
    Reply,
    StreamEvent,
    Target,
    TaskList,
    TaskRequest,
    TaskResult,
    VideoRequest,
    WireRequest,
)
from tornado_gate.types.value import Value, replace

MOST_WAIT_SECONDS = 60.0
ENDED = frozenset({"completed", "failed"})
KEY_HEADER = "idempotency-key"
LONGEST_KEY = 255


class VideoParts(Value, frozen=True):
    """What video tasks need of the process: who runs them, and where finished videos are."""

    gate: Gate
    tasks: TaskEngine
    files: MediaStore


async def begin(
    parts: VideoParts, snapshot: Snapshot, call: Call, wire: WireRequest, wire_format: FormatLane
) -> tuple[Call, Reply]:
    """Keep a task for a request. It is durable when this returns; the upstream is asked later."""
    call = snapshot.about(replace(call, operation="videos"), snapshot.asked_model(wire))
    call = replace(call, facts={**call.facts, "video_bounds": snapshot.config.videos.bounds})
    targets = snapshot.targets(call, ("videos",))
    request = await wire_format.translate_request(call, wire)
    if not isinstance(request, VideoRequest):
        raise wire_format.broken("translate_request of a video gave no VideoRequest")
    call, record = await _keep(parts, call, request, targets)
    events = aiter_events(iter([TaskResult(task=_seen(parts, call, record))]))
    return call, wire_format.translate_response(call, request, events)


async def _keep(
    parts: VideoParts,
    call: Call,
    request: VideoRequest,
    targets: list[tuple[Target, ProviderInUse]],
    remixed_from: str | None = None,
) -> tuple[Call, TaskRecord]:
    if request.image is not None:
        request = replace(request, image=await _at_hand(call, request.image, request.field_name("image")))
    key = _idempotency_key(call)
    rules = parts.tasks.rules
    target, provider = choose_target(parts.gate, call, targets)
    call = replace(call, target=target, pool=parts.gate.pool(provider))
    task_id = f"video_{secrets.token_hex(16)}"
    await provider.working.translate_request(call, replace(request, task_id=task_id))  # what is wrong is said now
    now = time.time()
    record = TaskRecord(
        id=task_id,
        account=call.caller.account,
        caller_id=call.caller.id,
        model=call.model,
        provider=target.provider,
        upstream_model=target.upstream_model,
        created_at=now,
        updated_at=now,
        deadline=now + rules.task_seconds,
        request=request_as_json(request),
        image=_about(request.image),
        kind="text" if request.image is None else "image",
        digest=await _digest(call.model, request, remixed_from),
        webhook={"url": request.webhook} if request.webhook else None,
        remixed_from=remixed_from,
    )
    kept = await parts.tasks.store.earlier(record, key) if key else None
    if kept is None:
        if await parts.tasks.store.count_active(record.account) >= rules.queued_per_account:
            message = (
                f"This account has {rules.queued_per_account} video tasks that have not ended; wait until one has."
            )
            raise RateLimited(message, retry_after=30, code="too_many_tasks")
        kept = await parts.tasks.store.create(record, _chunks(request.image), key)
        parts.tasks.look()
    return call, kept


async def _at_hand(call: Call, image: FileSource, param: str) -> FileSource:
    """The picture itself: an address may not hold what it holds now when the task's turn comes."""
    if isinstance(image, Link):
        found = await pictures.picture_of(call, image, param)
        return Data(media_type=found.media_type, base64=base64.b64encode(found.data).decode())
    await pictures.check(image, param)
    return image


def _idempotency_key(call: Call) -> str:
    key = call.headers.get(KEY_HEADER, "")
    if len(key) > LONGEST_KEY or not key.isprintable():
        raise InvalidField(
            "Idempotency-Key", f"'Idempotency-Key' must have at most {LONGEST_KEY} printable characters."
        )
    return key


def _about(image: FileSource | None) -> Mapping[str, Any] | None:
    match image:
        case None | Link():
            return None
        case Data(media_type=media_type, base64=text):
            return {"media_type": media_type, "filename": "image", "size": len(text) * 3 // 4}
        case upload:
            return {"media_type": upload.media_type, "filename": upload.filename, "size": upload.size}


def _chunks(image: FileSource | None) -> AsyncIterator[bytes] | None:
    match image:
        case None | Link():
            return None
        case Data(base64=text):
            return _decoded(text)
        case upload:
            return upload.chunks()


async def _decoded(text: str) -> AsyncIterator[bytes]:
    """The bytes of a picture that was checked, piece by piece."""
    plain = text.replace("-", "+").replace("_", "/").rstrip("=")
    step = 4 * 256 * 1024
    for start in range(0, len(plain), step):
        piece = plain[start : start + step]
        yield base64.b64decode(piece + "=" * (-len(piece) % 4))


async def _digest(model: str, request: VideoRequest, remixed_from: str | None) -> str:
    """Equal for equal wishes: what tells a repeated request from another under the same idempotency key."""
    told = [model, request_as_json(request), remixed_from]
    summed = hashlib.sha256(orjson.dumps(told, option=orjson.OPT_SORT_KEYS))
    chunks = _chunks(request.image)
    if chunks is not None:
        async for chunk in chunks:
            summed.update(chunk)
    return summed.hexdigest()


# What exists


async def answer(
    parts: VideoParts, snapshot: Snapshot, call: Call, request: TaskRequest, wire_format: FormatLane
) -> tuple[Call, Reply | MediaFile]:
    """What a caller asks of its tasks: a reply, or the file that is to be sent. Raises NotFound for a task of others."""
    if request.action == "list":
        events = aiter_events(iter([await _listed(parts, call, request)]))
        return call, wire_format.translate_response(call, request, events)
    record = await find(parts, call, request.task_id)
    call = snapshot.about(call, record.model)
    match request.action:
        case "content":
            return call, await _content(parts, record, request.index)
        case "remix":
            return await _remixed(parts, snapshot, call, record, request, wire_format)
        case "events":
            events = _followed(parts, call, record)
        case "delete":
            await _delete(parts, record)
            result = TaskResult(task=_seen(parts, call, record), deleted=True)
            events = aiter_events(iter([result]))
        case _:
            record = await _waited(parts, record, min(request.wait, MOST_WAIT_SECONDS))
            events = aiter_events(iter([TaskResult(task=_seen(parts, call, record))]))
    return call, wire_format.translate_response(call, request, events)


async def find(parts: VideoParts, call: Call, task_id: str) -> TaskRecord:
    """A task of the caller's account. Raises NotFound, the same for one of another's as for one that never was."""
    record = await parts.tasks.get(task_id)
    if record.account != call.caller.account:
        raise no_such_task()
    return record


def _seen(parts: VideoParts, call: Call, record: TaskRecord) -> Any:
    base = call.files.public_url if call.files is not None else ""
    urls = [base + parts.files.sign(file.id, record.expires_at or time.time()) for file in record.files]
    done = record.status == "completed"
    return task_of(record, position=parts.tasks.position(record), urls=urls if done else ())


async def _waited(parts: VideoParts, record: TaskRecord, seconds: float) -> TaskRecord:
    """The task when it has ended, or after `seconds`."""
    ends = time.monotonic() + seconds
    while record.status not in ENDED and (left := ends - time.monotonic()) > 0:
        record = await parts.tasks.changed(record, left)
    return record


async def _followed(parts: VideoParts, call: Call, record: TaskRecord) -> AsyncIterator[StreamEvent]:
    """The task now and at each change, until it has ended."""
    while record.status not in ENDED:
        yield TaskResult(task=_seen(parts, call, record), last=False)
        before = record
        while (record.status, record.progress) == (before.status, before.progress):
            record = await parts.tasks.changed(record, MOST_WAIT_SECONDS)
    yield TaskResult(task=_seen(parts, call, record))


async def _listed(parts: VideoParts, call: Call, request: TaskRequest) -> TaskList:
    account = call.caller.account
    page = await parts.tasks.store.list(account, request.after, request.limit, request.order)
    return TaskList(tasks=tuple(_seen(parts, call, record) for record in page.records), has_more=page.has_more)


async def _content(parts: VideoParts, record: TaskRecord, index: int) -> MediaFile:
    if record.status != "completed":
        state = "has failed" if record.status == "failed" else "is not ready yet"
        raise NotFound(f"The video {state}: its task is '{record.status}'.", code="video_not_ready")
    if not 0 <= index < len(record.files):
        raise NotFound(
            f"The task has {len(record.files)} videos, counted from 0.", param="index", code="video_not_found"
        )
    return await parts.files.find(record.files[index].id)


async def _delete(parts: VideoParts, record: TaskRecord) -> None:
    """Stop it if it runs; then nothing of it is left."""
    if record.status not in ENDED:
        await parts.tasks.cancel(record)
        record = await parts.tasks.store.get(record.id)  # with the files that it has brought home meanwhile
    for file in record.files:
        await parts.files.delete(file.id)
    await parts.tasks.delete(record.id)


async def _remixed(
    parts: VideoParts, snapshot: Snapshot, call: Call, record: TaskRecord, request: TaskRequest, wire_format: FormatLane
) -> tuple[Call, Reply]:
    """A new task from a finished one, at the same provider."""
    if record.status != "completed" or record.operation is None:
        raise NotFound("Only a completed video can be remixed.", code="video_not_ready")
    provider = snapshot.providers.get(record.provider)
    if provider is None or provider.lane is None:
        raise Unavailable(f"The provider '{record.provider}' of this task is not in conf or does not work.")
    asked = request.request or VideoRequest(model=record.model, prompt="")
    earlier = record.request
    fresh = replace(
        asked, model=record.model, remix_of=record.operation,
        seconds=earlier.get("seconds"), width=earlier.get("width"), height=earlier.get("height"),
    )  # fmt: skip
    target = snapshot.target_of(record.model, record.provider, record.upstream_model)
    call, kept = await _keep(parts, call, fresh, [(target, provider)], remixed_from=record.id)
    events = aiter_events(iter([TaskResult(task=_seen(parts, call, kept))]))
    return call, wire_format.translate_response(call, fresh, events)
