"""Cases of contracts: a request with the upstream's recorded response, and a vendor's error with the response to the
caller.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from tornado_gate.types import Request, StreamEvent
from tornado_gate.types.value import Value, field

UNCHECKED: Any = msgspec.UNSET
"""The value of a field that a case does not check."""


class Case(Value, frozen=True, kw_only=True):
    """One request of a provider, and the upstream's response to it. Fields without a value are not checked.

    `outgoing` is the body of the upstream request: its JSON value, bytes, a form's fields, or None for a request
    without a body. `method`, `headers` (some of them) and `path` (the end of the URL) are checked too. `losses` are the
    fields that must be reported as dropped.

    `chunks` are the recorded response, with its `status` and `content_type`. `events` are the expected events; None for
    a response that is not translated, such as a downloaded file. `call_fields` are fields of the call, `upstream_model`
    the model's name.
    """

    request: Request
    name: str = ""
    outgoing: Any = UNCHECKED
    method: str = ""
    path: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    losses: Sequence[str] | None = None
    chunks: Sequence[bytes] = ()
    status: int = 200
    content_type: str = ""
    events: Sequence[StreamEvent] | None = None
    call_fields: Mapping[str, Any] = field(default_factory=dict)
    upstream_model: str = ""

    @property
    def label(self) -> str:
        """Return the case's name in messages."""
        return self.name or type(self.request).__name__

    @property
    def is_stream(self) -> bool:
        return bool(getattr(self.request, "stream", False))


class ErrorCase(Value, frozen=True, kw_only=True):
    """An error of the vendor. The upstream responds with `status` and `body`, and the caller must receive
    `expected_status`.

    `body` is bytes or a JSON value. `code`, `param` and `message` (a part of it) are checked if set. The same applies
    to `retry_after`, the header that the caller must receive. The error may also be in the body of a successful
    response (`status` 200).
    """

    status: int
    expected_status: int
    body: Any = b""
    headers: Mapping[str, str] = field(default_factory=dict)
    content_type: str = "application/json"
    code: str = ""
    param: str = ""
    message: str = ""
    retry_after: str = ""

    @property
    def raw(self) -> bytes:
        """Return the bytes of the body."""
        return self.body if isinstance(self.body, bytes) else json.dumps(self.body).encode()


COMMON_ERRORS = (
    ErrorCase(status=400, expected_status=400, body={"error": {"message": "The field is wrong."}}),
    ErrorCase(status=401, expected_status=502, body={"error": {"message": "no"}}, code="upstream_authentication"),
    ErrorCase(
        status=429, expected_status=429, body={"error": {"message": "slow down"}}, headers={"Retry-After": "7"},
        retry_after="7",
    ),
    ErrorCase(status=500, expected_status=502, body=b"<html>no JSON</html>", content_type="text/html"),
)  # fmt: skip
"""The errors of the core's table for the usual statuses: the default of `ProviderContract.errors`."""


class GuardCase(Value, frozen=True, kw_only=True):
    """A text and a guard's result: `becomes` is the text after the guard. None: the guard blocks it with `status` and `code`.

    `hidden` are the parts that no caller and no upstream may receive; by default the whole text if it changes.
    """

    text: str
    becomes: str | None = None
    hidden: Sequence[str] = ()
    status: int = 400
    code: str = "blocked_by_guard"
