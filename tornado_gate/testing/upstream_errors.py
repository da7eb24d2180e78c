"""Send a request to an upstream that responds with a vendor's error, and check the provider's error."""

from __future__ import annotations

from typing import Any, Protocol
from urllib.parse import urlsplit

from tornado_gate.errors import GateError
from tornado_gate.hookspecs import ProviderEntry
from tornado_gate.plugins.lanes import ProviderLane
from tornado_gate.testing.cases import Case, ErrorCase
from tornado_gate.testing.differences import GUIDE
from tornado_gate.testing.scripted_upstream import ScriptedUpstream, UpstreamAnswer
from tornado_gate.types import Call, StreamError, replace


class UpstreamContract(Protocol):
    """The used members of a `ProviderContract`."""

    @property
    def entry(self) -> ProviderEntry: ...
    def lane(self) -> ProviderLane: ...
    def call(self, case: Case | None = None) -> Call: ...
    def list_cases(self) -> list[Case]: ...


async def check_error(contract: UpstreamContract, expected: ErrorCase) -> None:
    """Raise AssertionError unless the first request of `contract` fails as in `expected`."""
    case = contract.list_cases()[0]
    label = f"An answer with status {expected.status}"
    error = await _find_error(contract, case, expected)
    if error is None:
        raise AssertionError(f"{label} did not become an error: raise a GateError, see {GUIDE}.")
    _check_value(label, "status", error.status, expected.expected_status)
    for name in ("code", "param"):
        if value := getattr(expected, name):
            _check_value(label, name, error.body()[name], value)
    message = error.message
    assert expected.message in message, (
        f"{label} became the message {message!r}, without {expected.message!r}. See {GUIDE}."
    )
    assert contract.entry.api_key not in message, f"{label}: the message of the error has the API key. See {GUIDE}."
    if expected.retry_after:
        _check_value(label, "Retry-After", error.headers.get("Retry-After"), expected.retry_after)


def _check_value(label: str, name: str, actual: Any, expected: Any) -> None:
    assert actual == expected, (
        f"{label} became an error with {name} {actual!r}, not {expected!r}. Map the vendor's codes with "
        f"tornado_gate.http.upstream_errors.error_for_status; see {GUIDE}."
    )


async def _find_error(contract: UpstreamContract, case: Case, expected: ErrorCase) -> GateError | None:
    """Return the error of the answer `expected`, raised by a hook or sent as the last event; None without an error."""
    from tornado_gate.http.upstream import Pool
    from tornado_gate.types import Timeouts

    body = expected.raw.replace(b"{api_key}", contract.entry.api_key.encode())
    headers = dict(expected.headers)
    answer = UpstreamAnswer(
        steps=(body,) if body else (), status=expected.status, headers=headers, content_type=expected.content_type
    )
    pool = Pool(Timeouts(connect=2))
    try:
        async with ScriptedUpstream(lambda request: answer).serving() as upstream:
            call = _aim_call(contract.call(case), upstream.url)
            return await _run_call(contract, case, replace(call, pool=pool))
    finally:
        await pool.close()


async def _run_call(contract: UpstreamContract, case: Case, call: Call) -> GateError | None:
    lane = contract.lane()
    try:
        async with call.closing:
            outgoing = await lane.translate_request(call, case.request)
            incoming = await lane.call_upstream(call, outgoing)
            async for event in lane.translate_response(call, case.request, incoming):
                if isinstance(event, StreamError):
                    return event.error
    except GateError as error:
        return error
    return None


def _aim_call(call: Call, url: str) -> Call:
    """Return the call with its target at the test's upstream, and the path of its base URL."""
    path = urlsplit(call.target.base_url).path
    return replace(call, target=replace(call.target, base_url=url + path))
