"""Parse the upstream's envelope, common to tasks and errors, to VideoOperation or UpstreamError.

Source: https://app.klingai.com/global/dev/document-api/apiReference/commonInfo, "Error Code": 1000-1004 authentication
(401), 1100-1102 the account (429), 1103 no permission (403), 1200-1201 parameters (400), 1202-1203 no such method or
resource (404), 1300-1301 policy (400), 1302-1303 rate and parallel tasks (429), 1304 the IP allow list (429), 5000-5002
the server. A task: …/model/textToVideo, "Query Task (Single)". task_status_msg has the reason of a failure; `message`
is "SUCCEED" even then.
"""

from __future__ import annotations

import logging
import math
import re
from collections.abc import Mapping
from typing import Any, Final

from tornado_gate.errors import GateError, UpstreamError
from tornado_gate.http.upstream import make_refusal_error
from tornado_gate.http.upstream_errors import key_refused
from tornado_gate.types import Call, VideoOperation
from tornado_gate.types.value import Value, field
from tornado_gate.types.wire import parse_json, require_object
from tornado_gate_kling.account import KlingAccount
from tornado_gate_kling.address import KINDS, Kind

log = logging.getLogger(__name__)

POLICY_CODES: Final = frozenset({1300, 1301})
NOT_FOUND_CODE: Final = 1203
_ACCOUNT_CODES: Final = frozenset({*range(1000, 1005), *range(1100, 1104), 1304})
_STATUS_OF_CODE: Final = {
    **dict.fromkeys((1200, 1201, 1300, 1301), 400),
    **dict.fromkeys((1202, 1203), 404),
    **dict.fromkeys((1302, 1303), 429),
    5001: 503,
    5002: 504,
}
"""The HTTP status of a code, for errors that come with status 200."""
_STATUS_OF_STATE: Final[Mapping[str, Any]] = {
    "submitted": "queued",
    "processing": "running",
    "succeed": "completed",
    "failed": "failed",
}
_UNKNOWN_MESSAGE: Final = re.compile(
    r"task.{0,80}(not[ _]?(found|exist)|doesn.t exist)|no such task|invalid task", re.IGNORECASE
)
_DUPLICATE_MESSAGE: Final = re.compile(r"external_task_id.{0,200}exist", re.IGNORECASE | re.DOTALL)
_POLICY_MESSAGE: Final = re.compile(
    r"risk control|polic|moderation|sensitive|security|prohibited|violat", re.IGNORECASE
)
_MAX_MESSAGE_LENGTH: Final = 500
_TASK_ID: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_=.-]{0,127}")


class KlingResponse(Value, frozen=True, kw_only=True):
    """The envelope. `code` is 0 for success, -1 when it is missing or not a number; `data` is the task."""

    code: int
    message: str = ""
    data: Mapping[str, Any] = field(default_factory=dict)

    @property
    def is_unknown_task(self) -> bool:
        """Return whether the upstream reports that the task does not exist."""
        return self.code == NOT_FOUND_CODE or (
            self.code not in _ACCOUNT_CODES and bool(_UNKNOWN_MESSAGE.search(self.message))
        )

    @property
    def is_duplicate(self) -> bool:
        """Return whether the upstream reports that a task with this external id exists already."""
        return self.code != 0 and bool(_DUPLICATE_MESSAGE.search(self.message))


def parse_response(account: KlingAccount, raw: bytes, provider: str) -> KlingResponse:
    """Return the envelope in a response body, with keys masked in its message. Raises UpstreamError for any other body."""
    value = require_object(parse_json(raw, provider), provider)
    code, message, data = value.get("code"), value.get("message"), value.get("data")
    return KlingResponse(
        code=code if isinstance(code, int) else -1,
        message=account.mask_keys(message)[:_MAX_MESSAGE_LENGTH] if isinstance(message, str) else "",
        data=data if isinstance(data, dict) else {},
    )


def make_error(call: Call, answer: KlingResponse, raw: bytes, status: int, headers: Mapping[str, str]) -> GateError:
    """Return the error for a response without a task. For account errors, the caller does not receive the upstream's
    message.
    """
    provider, account = call.target.provider, call.target.settings
    if answer.code in _ACCOUNT_CODES:
        log.warning(
            "upstream '%s' rejected the configured account with code %d; check the provider's keys",
            provider,
            answer.code,
        )
        return key_refused(provider)
    status = status if status >= 300 else _STATUS_OF_CODE.get(answer.code, 500)
    return make_refusal_error(call, status, headers, account.mask_keys(raw.decode("utf-8", "replace")).encode())


def make_policy_failure(call: Call, answer: KlingResponse) -> VideoOperation:
    """Return a policy rejection as a failed video. The upstream reports it at creation or later."""
    error = (
        answer.message or f"The provider '{call.target.provider}' rejected this video because of its content policy."
    )
    return VideoOperation(status="failed", code="content_policy_violation", error=error)


def parse_operation(call: Call, answer: KlingResponse, kind: Kind) -> VideoOperation:
    """Return the state of a task. Raises UpstreamError for a task without an id, which could not be polled."""
    data, raw = answer.data, str(answer.data.get("task_status") or "")
    task_id = data.get("task_id")
    if not isinstance(task_id, str) or not _TASK_ID.fullmatch(task_id):
        raise UpstreamError(
            f"The provider '{call.target.provider}' returned a task without an id, so it cannot be polled."
        )
    operation: dict[str, Any] = {"kind": kind, "task_id": task_id}
    status = _STATUS_OF_STATE.get(raw, "unknown")
    if status == "failed":
        return _make_failed_operation(call.target.settings, data, operation)
    if status == "unknown":
        return VideoOperation(status="unknown", operation=operation, raw=raw[:_MAX_MESSAGE_LENGTH])
    if status != "completed":
        return VideoOperation(status=status, operation=operation)
    videos = _list_videos(data)
    return VideoOperation(
        status="completed",
        operation={**operation, "urls": [url for url, _ in videos]},
        videos=len(videos),
        duration=videos[0][1] if videos else None,
    )


def _make_failed_operation(
    account: KlingAccount, data: Mapping[str, Any], operation: Mapping[str, Any]
) -> VideoOperation:
    reason = data.get("task_status_msg")
    why = account.mask_keys(reason)[:_MAX_MESSAGE_LENGTH] if isinstance(reason, str) else ""
    code = "content_policy_violation" if _POLICY_MESSAGE.search(why) else "generation_failed"
    return VideoOperation(status="failed", operation=operation, code=code, error=why)


def _list_videos(data: Mapping[str, Any]) -> list[tuple[str, float | None]]:
    """Return (URL, seconds) of each video, with the watermarked URL when a watermark was requested."""
    result, mark = data.get("task_result"), data.get("watermark_info")
    listed = result.get("videos") if isinstance(result, dict) else None
    marked = isinstance(mark, dict) and mark.get("enabled") is True
    videos = []
    for video in listed if isinstance(listed, list) else []:
        if isinstance(video, dict):
            url = (video.get("watermark_url") if marked else None) or video.get("url")
            if isinstance(url, str) and url:
                videos.append((url, _read_seconds(video.get("duration"))))
    return videos


def _read_seconds(value: Any) -> float | None:
    try:
        seconds = float(value)
    except (TypeError, ValueError):
        return None
    return seconds if math.isfinite(seconds) and seconds > 0 else None


def get_kind(operation: Mapping[str, Any]) -> Kind | None:
    """Return the kind of a created task; None for an operation that this plugin did not return."""
    return next((kind for kind in KINDS if kind == operation.get("kind")), None)
