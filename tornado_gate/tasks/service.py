"""The operations of callers on video tasks: create, show, wait for, follow, list, download, delete and remix them.

A caller sees the tasks of its own account only. `engine.py` runs the tasks. The service uses no wire format and no HTTP.
"""

from __future__ import annotations

import asyncio
import hashlib
import secrets
import time
from collections.abc import AsyncIterator, Sequence

import orjson

from tornado_gate.admission.estimates import USUAL_VIDEO_SECONDS, Estimate
from tornado_gate.errors import InvalidField, NotFound, RequestError, Unavailable
from tornado_gate.pipeline.gate import Gate
from tornado_gate.pipeline.model_names import resolve_model_name
from tornado_gate.pipeline.snapshot import Snapshot
from tornado_gate.plugins.lanes import FormatLane
from tornado_gate.storage.files import MediaFile
from tornado_gate.streams.events import iterate_events
from tornado_gate.targets.candidates import choose_target
from tornado_gate.targets.table import Candidate
from tornado_gate.tasks.engine import TaskEngine
from tornado_gate.tasks.record import TaskRecord, encode_request
from tornado_gate.tasks.request_image import describe_image, load_image, stream_image
from tornado_gate.tasks.store import task_not_found_error, too_many_tasks_error
from tornado_gate.tasks.translation import TranslatedRequest, translate
from tornado_gate.tasks.usage import describe_caller
from tornado_gate.tasks.view import build_video_task
from tornado_gate.tasks.webhook_sender import WebhookSender
from tornado_gate.types import (
    Call,
    Charge,
    Reply,
    Request,
    StreamEvent,
    TaskList,
    TaskRequest,
    TaskResult,
    VideoRequest,
    VideoTask,
    WireRequest,
)
from tornado_gate.types.quantities import Quantities
from tornado_gate.types.value import replace

MAX_WAIT_SECONDS = 60.0
ENDED_STATUSES = frozenset({"completed", "failed"})
KEY_HEADER = "idempotency-key"
MAX_KEY_LENGTH = 255


class TaskService:
    """The video tasks of all accounts. `engine` runs them, `files` has the finished videos."""

    def __init__(self, gate: Gate, engine: TaskEngine, webhooks: WebhookSender) -> None:
        self._gate = gate
        self._webhooks = webhooks
        self.engine = engine
        self.files = engine.files
        self._store = engine.store

    async def close(self) -> None:
        """Stop running tasks; another process, or the next start, continues them."""
        await self.engine.close()
        await asyncio.to_thread(self._webhooks.close)

    # Creating

    async def create(
        self, snapshot: Snapshot, call: Call, wire: WireRequest, wire_format: FormatLane
    ) -> tuple[Call, Reply]:
        """Create a task for a request. The task is durable when this returns; the upstream is called later.

        Raises the errors of the format and the provider for this request, RateLimited (too_many_tasks) and TaskConflict.
        """
        model = resolve_model_name(snapshot.config.defaults, wire, call.caller)
        call = snapshot.targets.for_model(replace(call, operation="videos"), model)
        call = replace(call, facts={**call.facts, "video_bounds": snapshot.config.videos.bounds})
        targets = snapshot.targets.select_targets(call, ("videos",))
        try:
            request = await wire_format.translate_request(call, wire)
        except RequestError:
            await self._check_limits(call, targets)
            raise
        if not isinstance(request, VideoRequest):
            raise wire_format.contract_error("translate_request of a video gave no VideoRequest")
        call, record = await self._create_task(call, request, targets)
        return call, self._render(call, request, wire_format, record)

    async def remix(
        self, snapshot: Snapshot, call: Call, record: TaskRecord, request: TaskRequest, wire_format: FormatLane
    ) -> tuple[Call, Reply]:
        """Create a task that changes the video of a completed one, at the same provider."""
        if record.status != "completed" or record.operation is None:
            message = f"Only a completed video can be remixed; the task of this video is '{record.status}'."
            raise NotFound(message, code="video_not_ready")
        provider = snapshot.targets.providers.get(record.provider)
        if provider is None or provider.lane is None:
            raise Unavailable(f"The provider '{record.provider}' of this task is not configured or its plugin failed.")
        changes = request.request or VideoRequest(model=record.model, prompt="")
        remixed = replace(
            changes, model=record.model, remix_of=record.operation, seconds=record.request.get("seconds"),
            width=record.request.get("width"), height=record.request.get("height"),
        )  # fmt: skip
        target = snapshot.targets.make_task_target(
            record.model, record.provider, record.upstream_model, record.provider_key
        )
        provider.lane.check_unseen_request(replace(call, target=target), seen=call)
        call, created = await self._create_task(call, remixed, [(target, provider)], remixed_from=record.id)
        return call, self._render(call, remixed, wire_format, created)

    async def _create_task(
        self, call: Call, request: VideoRequest, targets: Sequence[Candidate], remixed_from: str | None = None
    ) -> tuple[Call, TaskRecord]:
        """Return the call for its target, and the new task, or the task that has the call's idempotency key.

        The key is looked up before a target is chosen: a repeated request returns its task although no target is available.
        """
        if request.image is not None:
            request = replace(request, image=await load_image(call, request.image, request.field_name("image")))
        if request.webhook and await self._webhooks.is_off(call.caller.account):
            message = "The webhooks of this account are off. Send the request without a webhook, or ask the operator."
            raise InvalidField(request.field_name("webhook"), message, code="webhooks_off")
        key = get_idempotency_key(call)
        request = replace(request, task_id=f"video_{secrets.token_hex(16)}")
        record = await self._make_record(call, request, remixed_from)
        earlier = await self._store.find_earlier(record, key) if key else None
        if earlier is not None:
            target, _ = next(
                (candidate for candidate in targets if candidate[0].provider == earlier.provider), targets[0]
            )
            return replace(call, target=target), earlier
        target, provider = await self._admit(call, targets, request)
        try:
            call = replace(call, target=target, pool=self._gate.pools.get_pool(provider))
            translated = await translate(call, provider.usable_lane, request)
            reserved = tuple(self._gate.admission.describe_reservations(call.charge))
            record = replace(
                record,
                provider=target.provider,
                upstream_model=target.upstream_model,
                provider_key=target.key,
                reserved=reserved,
            )
            stored = await self._store_task(record, request, key, translated)
        except BaseException:
            self._gate.admission.cancel(call.charge)
            raise
        if stored.id == record.id:
            self._gate.admission.leave_to_task(call.charge)
        else:
            self._gate.admission.cancel(call.charge)
        return call, stored

    async def _admit(self, call: Call, targets: Sequence[Candidate], request: VideoRequest) -> Candidate:
        """Return the first available target whose own bounds are not reached, after reserving the task's maximum usage.

        Raises RateLimited, and Unavailable when every circuit is open.
        """
        admission, remaining = self._gate.admission, list(targets)
        while True:
            candidate = choose_target(self._gate.health, self._gate.snapshot.targets, call, remaining)
            if not admission.is_active and not call.caller.bounds:
                return candidate
            refusal = await admission.enter(self._gate.snapshot.prices, call, candidate[0], _estimate_task(request))
            if refusal is None:
                return candidate
            remaining = [offer for offer in remaining if offer[0].provider != candidate[0].provider]
            if not remaining:
                raise refusal

    async def _check_limits(self, call: Call, targets: Sequence[Candidate]) -> None:
        """Raise RateLimited when the limits of the caller are used up. Nothing is reserved.

        For a wrong body: on all routes a used-up limit is reported before faults of the body. A correct body is translated first,
        because a request that repeats an earlier one is not limited.
        """
        trial, prices = self._gate.admission.make_trial(), self._gate.snapshot.prices
        await trial.enter(prices, replace(call, charge=Charge()), targets[0][0], Estimate(Quantities()))

    async def _make_record(self, call: Call, request: VideoRequest, remixed_from: str | None) -> TaskRecord:
        """Return the record of a task without its target."""
        now = self._store.get_time()
        return TaskRecord(
            id=request.task_id,
            account=call.caller.account,
            caller_id=call.caller.id,
            model=call.model,
            provider="",
            upstream_model="",
            created_at=now,
            updated_at=now,
            deadline=now + self.engine.rules.task_seconds,
            request=encode_request(request),
            image=describe_image(request.image),
            kind="text" if request.image is None else "image",
            digest=await compute_digest(call.model, request, remixed_from),
            webhook={"url": request.webhook} if request.webhook else None,
            remixed_from=remixed_from,
            requested_by=describe_caller(call),
        )

    async def _store_task(
        self, record: TaskRecord, request: VideoRequest, key: str, translated: TranslatedRequest | None
    ) -> TaskRecord:
        """Make the task durable and let an engine run it.

        Raises RateLimited when the account has too many tasks that have not ended.
        """
        limit = self.engine.rules.queued_per_account
        if request.image is not None and await self._store.count_active(record.account) >= limit:
            raise too_many_tasks_error(limit)  # before the image is stored; `create` checks again, exactly
        stored = await self._store.create(record, stream_image(request.image), key, limit=limit)
        self.engine.submit(stored.id, translated if stored.id == record.id else None)
        return stored

    # Existing tasks

    async def answer(
        self, snapshot: Snapshot, call: Call, request: TaskRequest, wire_format: FormatLane
    ) -> tuple[Call, Reply | MediaFile]:
        """Serve a request about existing tasks: return a reply, or the file to send.

        Raises NotFound for tasks of other accounts.
        """
        if request.action == "list":
            return call, _reply(call, request, wire_format, await self.list(call, request))
        record = await self.find_task(call, request.task_id)
        call = snapshot.targets.for_model(call, record.model)
        match request.action:
            case "content":
                return call, await self.find_content(record, request.index)
            case "remix":
                return await self.remix(snapshot, call, record, request, wire_format)
            case "events":
                return call, wire_format.translate_response(call, request, self.follow(call, record))
            case "delete":
                await self.delete(record)
                return call, self._render(call, request, wire_format, record, deleted=True)
            case _:
                record = await self.wait(record, min(request.wait, MAX_WAIT_SECONDS))
                return call, self._render(call, request, wire_format, record)

    async def find_task(self, call: Call, task_id: str) -> TaskRecord:
        """Return a task of the caller's account. Raises the same NotFound for another account's task as for a missing one."""
        record = await self.engine.get(task_id)
        if record.account != call.caller.account:
            raise task_not_found_error()
        return record

    def show(self, call: Call, record: TaskRecord) -> VideoTask:
        """Return the task as its caller sees it, with signed addresses of its videos when it is completed."""
        base = call.files.public_url if call.files is not None else ""
        expires = record.expires_at or time.time()
        files = record.files if record.status == "completed" else ()
        urls = [base + self.files.sign(file.id, expires) for file in files]
        return build_video_task(record, position=self.engine.find_position(record), urls=urls)

    async def list(self, call: Call, request: TaskRequest) -> TaskList:
        """Return a page of the account's tasks."""
        page = await self._store.list(call.caller.account, request.after, request.limit, request.order)
        return TaskList(tasks=tuple(self.show(call, record) for record in page.records), has_more=page.has_more)

    async def wait(self, record: TaskRecord, seconds: float) -> TaskRecord:
        """Return the task when it has ended, or after `seconds`."""
        ends = time.monotonic() + seconds
        while record.status not in ENDED_STATUSES and (seconds_left := ends - time.monotonic()) > 0:
            record = await self.engine.wait_for_change(record, seconds_left)
        return record

    async def follow(self, call: Call, record: TaskRecord) -> AsyncIterator[StreamEvent]:
        """Yield the task now and after each change of its status or progress, until it has ended."""
        while record.status not in ENDED_STATUSES:
            yield TaskResult(task=self.show(call, record), last=False)
            before = record
            while (record.status, record.progress) == (before.status, before.progress):
                record = await self.engine.wait_for_change(record, MAX_WAIT_SECONDS)
        yield TaskResult(task=self.show(call, record))

    async def find_content(self, record: TaskRecord, index: int) -> MediaFile:
        """Return video number `index` of a completed task.

        Raises NotFound (video_not_ready, video_not_found), and Unavailable (video_on_other_node) if this node has no file of it.
        """
        if record.status != "completed":
            state = "was not created" if record.status == "failed" else "is not ready yet"
            raise NotFound(f"The video {state}: its task is '{record.status}'.", code="video_not_ready")
        if not 0 <= index < len(record.files):
            message = f"'index' must be 0 to {len(record.files) - 1}: the task has {len(record.files)} videos."
            raise NotFound(message, param="index", code="video_not_found")
        try:
            return await self.files.find_file(record.files[index].id)
        except NotFound:
            if not self._store.is_shared or (record.expires_at or 0.0) <= self._store.get_time():
                raise
            message = (
                "This video is stored at another node of the gateway, which made it. Send the request to that node."
            )
            raise Unavailable(message, code="video_on_other_node") from None

    async def delete(self, record: TaskRecord) -> None:
        """Cancel the task if it has not ended, then delete it with its videos."""
        if record.status not in ENDED_STATUSES:
            await self.engine.cancel(record)
            record = await self._store.get(record.id)  # with the files that were downloaded since
        for file in record.files:
            await self.files.delete(file.id)
        await self.engine.delete(record.id)

    def _render(
        self, call: Call, request: Request, wire_format: FormatLane, record: TaskRecord, *, deleted: bool = False
    ) -> Reply:
        return _reply(call, request, wire_format, TaskResult(task=self.show(call, record), deleted=deleted))


def _reply(call: Call, request: Request, wire_format: FormatLane, event: StreamEvent) -> Reply:
    return wire_format.translate_response(call, request, iterate_events(iter([event])))


def _estimate_task(request: VideoRequest) -> Estimate:
    """Return the estimated usage of a task, for its bounds."""
    size = f"{request.width}x{request.height}" if request.width and request.height else ""
    number = request.n or 1
    if request.seconds is None:
        return Estimate(Quantities(size=size), usual_seconds=USUAL_VIDEO_SECONDS * number)
    return Estimate(Quantities(seconds=request.seconds * number, size=size))


def get_idempotency_key(call: Call) -> str:
    """Return the caller's Idempotency-Key, "" without one. Raises InvalidField for one that is too long or not printable."""
    key = call.headers.get(KEY_HEADER, "")
    if len(key) > MAX_KEY_LENGTH or not key.isprintable():
        raise InvalidField(
            "Idempotency-Key", f"'Idempotency-Key' must have at most {MAX_KEY_LENGTH} printable characters."
        )
    return key


async def compute_digest(model: str, request: VideoRequest, remixed_from: str | None) -> str:
    """Return the SHA-256 of the request, its image included: equal requests under one idempotency key are one task."""
    fields = [model, encode_request(request), remixed_from]
    digest = hashlib.sha256(orjson.dumps(fields, option=orjson.OPT_SORT_KEYS))
    chunks = stream_image(request.image)
    if chunks is not None:
        async for chunk in chunks:
            digest.update(chunk)
    return digest.hexdigest()
