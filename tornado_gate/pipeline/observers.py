"""The end of a request, reported to wrappers through the functions of `Call.when_ended`."""

from __future__ import annotations

import logging

from tornado_gate.types import Call, RequestEnd

log = logging.getLogger(__name__)


def tell_observers(call: Call, status: int, error_code: str, outcome: str, seconds: float) -> None:
    """Call each function once, in reverse order like an exit stack. Only log failures, because the response has ended."""
    ended = RequestEnd(call=call, status=status, error_code=error_code, outcome=outcome, seconds=seconds)
    for tell in call.additions.take_observers():
        try:
            tell(ended)
        except Exception:
            fields = {"request_id": call.id}
            log.exception("a function of Call.when_ended failed: %r", tell, extra={"fields": fields})
