"""Log records for the collector: one for each request, and those of the gateway, without secrets.

The gateway writes its log as before. A record for the collector waits in a bounded queue, whose thread sends it.
"""

from __future__ import annotations

import logging
import time
from typing import Any, Final

from opentelemetry._logs import Logger, LogRecord, SeverityNumber
from opentelemetry.trace import Span, set_span_in_context

from tornado_gate.telemetry.logs import get_scrubber

GATEWAY_LOGGER: Final = "tornado_gate"
_SEVERITIES: Final = (
    (logging.CRITICAL, SeverityNumber.FATAL),
    (logging.ERROR, SeverityNumber.ERROR),
    (logging.WARNING, SeverityNumber.WARN),
    (logging.INFO, SeverityNumber.INFO),
)


class RecordHandler(logging.Handler):
    """A handler that sends the log records of the gateway to the collector."""

    def __init__(self, logger: Logger, level: int) -> None:
        super().__init__(level)
        self._logger = logger

    def emit(self, record: logging.LogRecord) -> None:
        """Send a record. Its secrets are masked as in the gateway's log; tracebacks stay there."""
        try:
            scrubber = get_scrubber()
            fields = scrubber.scrub_fields(getattr(record, "fields", None) or {})
            attributes: dict[str, Any] = {
                f"tornado_gate.{name}": _to_attribute(value) for name, value in fields.items()
            }
            if record.exc_info and record.exc_info[0] is not None:
                attributes["exception.type"] = record.exc_info[0].__qualname__
            self._logger.emit(
                LogRecord(
                    timestamp=int(record.created * 1e9),
                    observed_timestamp=time.time_ns(),
                    severity_text=record.levelname,
                    severity_number=_find_severity(record.levelno),
                    body=scrubber.scrub_text(record.getMessage()),
                    attributes={"logger.name": record.name, **attributes},
                )
            )
        except Exception:
            self.handleError(record)

    def handleError(self, record: logging.LogRecord) -> None:
        """Lose a record that cannot be sent. The gateway's own log has it."""


def emit_request(logger: Logger, span: Span, name: str, attributes: dict[str, Any], *, outcome: str) -> None:
    """Send the record of a request that has ended, with its trace. Its attributes are those of the span."""
    is_failed, is_refused = outcome in ("failed", "broken"), outcome in ("refused", "aborted")
    severity = SeverityNumber.ERROR if is_failed else SeverityNumber.WARN if is_refused else SeverityNumber.INFO
    now = time.time_ns()
    logger.emit(
        LogRecord(
            timestamp=now,
            observed_timestamp=now,
            context=set_span_in_context(span),
            severity_text=severity.name,
            severity_number=severity,
            body=name,
            attributes=attributes,
            event_name="tornado_gate.request",
        )
    )


def _find_severity(level: int) -> SeverityNumber:
    return next((severity for least, severity in _SEVERITIES if level >= least), SeverityNumber.DEBUG)


def _to_attribute(value: Any) -> Any:
    return value if isinstance(value, str | bool | int | float) else str(value)
