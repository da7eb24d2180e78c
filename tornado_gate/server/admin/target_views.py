"""The administrator's views of targets, and the state of a model that follows from them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from tornado_gate.types.value import Value

CircuitState = Literal["closed", "open", "half-open"]
ModelState = Literal["available", "failing", "unavailable", "inactive"]
State = Literal["on", "failed", "off"]
FAILING_SECONDS = 3600.0
"""The time for which a failed request counts while no circuit is open: a rarely used model is not failing for days."""


class CircuitView(Value, frozen=True, kw_only=True):
    """The circuit of one upstream model of one provider entry. While it is `closed`, requests are sent.

    `account` is the only account for which it is open, "" for all. `retry_seconds` is the time until the next probe
    request. `opened_seconds` and `failed_seconds` are the times since it opened and since the last failure, whose code
    is `error_code`. `failing`: no request has succeeded since then.
    """

    provider: str
    upstream_model: str
    model: str
    state: CircuitState
    account: str = ""
    retry_seconds: float = 0.0
    opened_seconds: float | None = None
    failed_seconds: float | None = None
    error_code: str = ""
    failing: bool = False


class KeyView(Value, frozen=True, kw_only=True):
    """One of several keys of a provider entry, by its number in conf. It is suspended for `rests_seconds`, because of
    `error_code`.

    Of a target: suspended for its model; of a provider entry: for all models.
    """

    number: int
    rests_seconds: float = 0.0
    error_code: str = ""


class TargetView(Value, frozen=True, kw_only=True):
    """A target of a model. `upstream_model` of a wildcard entry may contain a ``*``. Weight 0: it gets no new requests.

    `priced`: the price of the upstream model is known. `down`: the health checks of its provider entry fail. `keys` are
    the keys of an entry with several. `in_flight` is the number of its current requests. `first_event_seconds` is the
    average time to the first event; None where the model's strategy needs no measurement.
    """

    provider: str
    plugin: str
    upstream_model: str
    weight: int
    state: State
    error: str
    operations: tuple[str, ...]
    circuits: tuple[CircuitView, ...]
    priced: bool = False
    down: bool = False
    keys: tuple[KeyView, ...] = ()
    in_flight: int | None = None
    first_event_seconds: float | None = None


def judge_state(targets: Iterable[TargetView]) -> tuple[ModelState, str]:
    """Return the state of a model, and which of its targets do not work. Drained targets (weight 0) do not count."""
    used = [target for target in targets if target.weight]
    failed = [reason for target in used if (reason := _explain_absence(target))]
    failing = [reason for target in used if (reason := "" if target.state == "failed" else _explain_failure(target))]
    reason = "; ".join(failed + failing)
    if not used:
        return "unavailable", "every target has weight 0"
    if len(failed) + len(failing) < len(used):
        return "available", reason
    return ("failing" if failing else "unavailable"), reason


def _explain_absence(target: TargetView) -> str:
    return f"{target.provider}: {target.error}" if target.state == "failed" else ""


def _explain_failure(target: TargetView) -> str:
    """Return why requests at a target fail, "" if they do not."""
    if target.down:
        return f"{target.provider}: its health checks fail"
    if target.keys and all(key.rests_seconds for key in target.keys):
        return f"{target.provider}: all its keys are suspended"
    failing = [circuit for circuit in target.circuits if _is_failing(circuit)]
    if "*" in target.upstream_model or not failing:
        return ""  # the circuit of one name does not describe the other names of a wildcard
    circuit = failing[0]
    if circuit.state == "closed":
        return f"{target.provider}: the last request for {target.upstream_model} failed ({circuit.error_code})"
    return f"{target.provider}: its circuit for {target.upstream_model} is {circuit.state} ({circuit.error_code})"


def _is_failing(circuit: CircuitView) -> bool:
    """Return whether requests fail: not if only one account has failures, and a request of another has succeeded since."""
    if circuit.state != "closed":
        return circuit.failing or not circuit.account
    return circuit.failing and circuit.failed_seconds is not None and circuit.failed_seconds < FAILING_SECONDS
