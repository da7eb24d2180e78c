"""The record of one task: the value, its allowed changes, and its encoding.

The encoding is one JSON object, ``{"sha256": …, "record": {…}}``. The checksum covers the bytes of the inner object. So a torn
record, or a record with a flipped bit, is detected and never run.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from typing import Any, Literal, get_args

from msgspec import NODEFAULT
from msgspec.structs import asdict, fields

from tornado_gate.types import FileSource, TaskStatus, VideoFile, VideoRequest
from tornado_gate.types.value import Value, field, replace

ID = re.compile(r"video_[0-9a-f]{32}", re.ASCII)
"""The id of a task."""

VERSION = 2
"""The version of the encoding. A gateway that adds a field increases it: an older gateway must not run such a record."""

CANCELLED = "cancelled"
"""The error code of a task that its caller has cancelled."""

Step = Literal["new", "starting", "running", "fetching", "telling", "done"]

_STATUSES: tuple[str, ...] = get_args(TaskStatus)
_STEPS: tuple[str, ...] = get_args(Step)
_ENDED = ("completed", "failed")
_HEAD = b'{"sha256":"'
_MIDDLE = b'","record":'
_TAIL = b"}\n"
_BODY_OFFSET = len(_HEAD) + 64 + len(_MIDDLE)


class RecordDamaged(ValueError):
    """An error: the bytes are not a valid record."""


class RecordNewer(RecordDamaged):
    """An error: the record is intact, but a newer gateway wrote it, and this gateway cannot read it."""


class TaskRecord(Value, frozen=True, kw_only=True):
    """A task. Times are Unix seconds. `id` is ``video_`` and 32 hex digits.

    `account` owns the task, `caller_id` is the key that created it. `model` is the requested name, `provider` the entry of conf
    that makes the video with `upstream_model`, and `operation` the upstream's name for its work, None while it is unknown.
    `provider_key` is the fingerprint of the key with which it is made, if the entry has several.

    `step` is the gateway's progress, `status` the status for the caller. `request` is the VideoRequest as JSON without its image:
    `image` has the image's media_type, filename and size, and the store has its bytes. `digest` is the digest of the request,
    `key` the digest of the idempotency key, "" without one; the store sets it. `files` are the downloaded videos, out of
    `videos`; each is `duration` seconds long. `failures` counts consecutive failures, `spent` is the seconds that all processes
    have run the task. `webhook` has url, attempts and next_at. `asked` are request fields that responses repeat. `requested_by`
    is the usage ledger's data about the caller, `reserved` are the task's reservations of budgets.
    """

    id: str
    account: str
    model: str
    provider: str
    upstream_model: str
    created_at: float
    deadline: float
    request: Mapping[str, Any]
    caller_id: str = ""
    provider_key: str = ""
    operation: Mapping[str, Any] | None = None
    step: Step = "new"
    status: TaskStatus = "queued"
    progress: int = 0
    updated_at: float = 0.0
    started_at: float | None = None
    completed_at: float | None = None
    expires_at: float | None = None
    image: Mapping[str, Any] | None = None
    kind: Literal["text", "image"] = "text"
    files: tuple[VideoFile, ...] = ()
    videos: int = 1
    fetched: int = 0
    duration: float | None = None
    error_code: str = ""
    error_message: str = ""
    polls: int = 0
    failures: int = 0
    next_poll_at: float = 0.0
    spent: float = 0.0
    remixed_from: str | None = None
    digest: str = ""
    key: str = ""
    webhook: Mapping[str, Any] | None = None
    asked: Mapping[str, Any] = field(default_factory=dict)
    requested_by: Mapping[str, Any] = field(default_factory=dict)
    reserved: tuple[Any, ...] = ()
    version: int = VERSION

    @property
    def created_ns(self) -> int:
        """Return `created_at` in nanoseconds, to the microsecond that a float of today can hold."""
        return max(0, round(self.created_at * 1e6)) * 1000

    @property
    def has_ended(self) -> bool:
        return self.step == "done"


class UniqueTimes:
    """The times of creation of one process: no two tasks have the same."""

    def __init__(self) -> None:
        self._last_ns = 0

    def make_unique(self, record: TaskRecord) -> TaskRecord:
        """Return the record, microseconds later if the clock has not advanced since the last one; it may have been set back."""
        nanoseconds = record.created_ns
        if self._last_ns - 10_000_000 < nanoseconds <= self._last_ns:
            nanoseconds = self._last_ns + 1000
            record = replace(record, created_at=nanoseconds / 1e9)
        self._last_ns = nanoseconds
        return record


_FIELDS = set(TaskRecord.__struct_fields__)
_REQUEST_DEFAULTS = {
    item.name: item.default if item.default_factory is NODEFAULT else item.default_factory()
    for item in fields(VideoRequest)
}
_NOT_STORED = {"image", "reply_state", "task_id"}


def encode_request(request: VideoRequest) -> dict[str, Any]:
    """Return the fields of a request that differ from their defaults, without its image, as JSON values."""
    values = {name: getattr(request, name) for name in _REQUEST_DEFAULTS if name not in _NOT_STORED}
    changed = {name: value for name, value in values.items() if value != _REQUEST_DEFAULTS[name]}
    return dict(json.loads(_encode(changed)))


def decode_request(record: TaskRecord, image: FileSource | None) -> VideoRequest:
    """Return the request of a record, with the id of the task and its image. Fields that no longer exist are dropped."""
    fields = {name: value for name, value in record.request.items() if name in _REQUEST_DEFAULTS.keys() - _NOT_STORED}
    return VideoRequest(**fields, task_id=record.id, image=image)


def advance(record: TaskRecord, *, again: bool = False, **changes: Any) -> TaskRecord:
    """Return the record with `changes`. Raises ValueError for a step or a status that goes back.

    `again` allows a task that has not ended to go back to "new". Progress never falls, even where the upstream's does.
    """
    status, step = changes.get("status", record.status), changes.get("step", record.step)
    if _is_backward(_STATUSES, record.status, status) or (record.status in _ENDED and status != record.status):
        raise ValueError(f"{record.id} is {record.status}: it cannot become {status}")
    repeated = again and record.step in ("starting", "running", "fetching") and step == "new"
    if _is_backward(_STEPS, record.step, step) and not repeated:
        raise ValueError(f"{record.id} is at the step {record.step}: it cannot go to {step}")
    if "progress" in changes:
        changes["progress"] = max(record.progress, min(100, changes["progress"]))
    return replace(record, **changes)


def _is_backward(order: tuple[str, ...], now: str, then: str) -> bool:
    return order.index(then) < order.index(now)


def encode_record(record: TaskRecord) -> bytes:
    """Return the bytes that `decode_record` reads. Raises TypeError for a value that JSON does not have."""
    values = {name: getattr(record, name) for name in _FIELDS}
    body = _encode({**values, "files": [asdict(file) for file in record.files]})
    return _HEAD + hashlib.sha256(body).hexdigest().encode() + _MIDDLE + body + _TAIL


def decode_record(data: bytes) -> TaskRecord:
    """Return the record in `raw`.

    Raises RecordNewer for a record of a newer gateway, and RecordDamaged for everything else that `encode_record` has not made.
    """
    body = data[_BODY_OFFSET : -len(_TAIL)]
    frame = _HEAD + hashlib.sha256(body).hexdigest().encode() + _MIDDLE + body + _TAIL
    if not data:
        raise RecordDamaged("it is empty")
    if frame != data:
        raise RecordDamaged("its checksum does not match: it is torn, or was not changed by the gateway")
    values = _parse_object(body)
    version = values.get("version")
    if isinstance(version, int) and version > VERSION:
        raise RecordNewer(f"it was written by a newer gateway: its version is {version}, this one knows {VERSION}")
    if unknown := sorted(values.keys() - _FIELDS):
        raise RecordDamaged(f"it has fields that no record of version {version} has: {', '.join(unknown)[:200]}")
    try:
        files = tuple(VideoFile(**file) for file in values.get("files", ()))
        return TaskRecord(**{**values, "files": files, "reserved": tuple(values.get("reserved", ()))})
    except TypeError as error:
        raise RecordDamaged(f"it lacks fields: {error}") from None


def _parse_object(body: bytes) -> dict[str, Any]:
    try:
        values = json.loads(body)
    except (ValueError, RecursionError):
        values = None
    if not isinstance(values, dict):
        raise RecordDamaged("it is not a JSON object")
    return values


def _encode(value: Mapping[str, Any]) -> bytes:
    return json.dumps(value, separators=(",", ":"), sort_keys=True, default=_convert_mapping).encode()


def _convert_mapping(value: Any) -> Any:
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{type(value).__name__} has no JSON encoding")
