"""Entries: one value for each request that has ended, from which ledger, access log and metrics take what they need.

The event loop only creates the `Entry` with references and appends it to their queues. They read it in batches.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from tornado_gate.types import Caller, Charge, Meter, Progress, Target
from tornado_gate.types.value import Value

UNFINISHED: Final = frozenset({"broken", "aborted"})
"""Outcomes of responses that the status does not show."""


class Entry(Value, frozen=True):
    """One request that has ended. `ended` is in microseconds since 1970.

    `model` is the model in the request, and `model_label` the configured model that the metrics count. `outcome` "" follows
    from `status` and `error_code`. `headers` come from `select_headers` of the ledger. `end_user` and `body` are what the
    request's body says, and the body itself if conf wants it. `prices` is the `PriceTable` of the request's snapshot. `row_id`
    is given for a request that may be recorded again, after a restart. `method`, `path`, `client` (the caller's IP address)
    and `bytes_out` (the size of the response's body) are for the access log. `meter` and `progress` do not change any more;
    the ledger releases the body in `charge`.
    """

    ended: int
    request_id: str
    caller: Caller
    target: Target
    model: str
    operation: str
    format: str
    status: int
    error_code: str
    outcome: str
    meter: Meter
    progress: Progress
    charge: Charge
    total_ms: float
    headers: Mapping[str, str]
    end_user: str = ""
    body: bytes = b""
    prices: Any = None
    row_id: str = ""
    method: str = ""
    path: str = ""
    client: str = ""
    bytes_out: int = 0
    model_label: str = ""


NO_CALLER: Final = Caller(id="", account="")
"""The caller of a request that ended before its key was known."""


def find_outcome(status: int, error_code: str) -> str:
    """Return the outcome of a response that was sent completely."""
    if status >= 500:
        return "failed"
    if status >= 400:
        return "refused"
    return "broken" if error_code else "complete"
