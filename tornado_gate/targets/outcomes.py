"""Records the outcome of an attempt: in the circuit of its target, in metrics and in the log. One definition for every operation.

A failure of the target is logged and counts for its circuit, both before and after the first event. A failure that the caller's
request causes does not count for a circuit: a rejected request, an unknown model, a rate limit, a disconnect. A failure that is
the fault of one of several keys suspends this key instead.
"""

from __future__ import annotations

import logging
from typing import Final

from tornado_gate.errors import GateError, PluginError, TargetBusy, UpstreamKeyRefused, UpstreamRefused
from tornado_gate.targets.circuits import EVERYBODY, Circuit
from tornado_gate.targets.health import TargetHealth
from tornado_gate.types import Call, Target

log = logging.getLogger(__name__)

KEY_WARNING_SECONDS: Final = 60.0
"""The time between two warnings about one key of a provider entry."""


def note_start(health: TargetHealth, call: Call) -> None:
    """Close the circuit of the target of `call`, because its response has begun. A cached response changes no circuit."""
    if call.progress.cached:
        release_probe(health, call)
        return
    if health.keys.suspensions:
        health.keys.note_success(call.target)
    circuit = health.circuits.find_circuit(call.target)
    if circuit is not None:
        before = circuit.blocked
        circuit.record_start(call.caller.account)
        _report_transition(health, call, circuit, before)


def note_success(health: TargetHealth, call: Call) -> None:
    """Record that the response of the target of `call` is complete. A cached response changes no circuit."""
    if call.progress.cached:
        release_probe(health, call)
        return
    if health.keys.suspensions:
        health.keys.note_success(call.target)
    circuit = health.circuits.find_circuit(call.target)
    if circuit is not None:
        before = circuit.blocked
        circuit.record_success(call.caller.account)
        _report_transition(health, call, circuit, before)


def note_failure(health: TargetHealth, call: Call, error: BaseException) -> None:
    """Count and log a failure of the target of `call`, and count it for its circuit if the target is at fault.

    An exception other than GateError, such as a cancellation because the caller disconnected, is not an outcome.
    """
    if not isinstance(error, GateError):
        release_probe(health, call)
        return
    _note_key_failure(health, call, error)
    if is_fault_of_target(call, error) and not _has_other_key(health, call, error):
        _count_for_circuit(health, call, error)
    else:
        release_probe(health, call)
    target = call.target
    if error.type != "invalid_request_error" or error.code == UpstreamRefused.code:
        health.metrics.targets.count_error(target.provider, error.code)
    if (
        not isinstance(error, PluginError) and error.type != "invalid_request_error"
    ):  # the lane has logged a PluginError
        log.info("target failed: %s", error.code, extra={"fields": _describe(call) | {"status": error.status}})


def note_end(health: TargetHealth, call: Call, error: GateError | None) -> None:
    """Record the end of a response after its first event: complete, or with `error`."""
    if error is None:
        note_success(health, call)
        return
    call.meter.record_late_error(None)  # its traceback refers to the meter
    call.progress.break_off(error)
    note_failure(health, call, error)


def is_fault_of_target(call: Call, error: GateError) -> bool:
    """Return whether an error counts for the circuit: another target may be tried after it, and it is not a rate limit.

    The failure of a format's plugin is not the target's fault, nor is the gateway's limit of requests to the target.
    """
    if isinstance(error, TargetBusy):
        return False
    if isinstance(error, PluginError) and error.plugin != call.target.plugin:
        return False
    return error.retryable and error.status != 429


def release_probe(health: TargetHealth, call: Call) -> None:
    """Release the probe of an attempt without an outcome, so that the next request may probe the target."""
    health.circuits.release_probe(call.target)


def _count_for_circuit(health: TargetHealth, call: Call, error: GateError) -> None:
    circuit = health.circuits.find_or_create(call.target, call.caller.account)
    if circuit is not None:
        before = circuit.blocked
        circuit.record_failure(call.caller.account, health.circuits.clock(), health.circuits.rules, error.code)
        if circuit.blocked is not None:
            health.shared.share_circuit(call.target, circuit)
        _report_transition(health, call, circuit, before)


def _report_transition(health: TargetHealth, call: Call, circuit: Circuit, before: str | None) -> None:
    if circuit.blocked == before:
        return
    fields = _describe(call)
    if circuit.blocked is None:
        health.shared.share_circuit(call.target, circuit)
        log.info("circuit closed: the target answers again", extra={"fields": fields})
    else:
        scope = "all accounts" if circuit.blocked == EVERYBODY else f"account {circuit.blocked}"
        seconds = health.circuits.rules.open_seconds
        log.warning("circuit opened for %s for %g s: too many failures", scope, seconds, extra={"fields": fields})
    if (circuit.blocked is None) != (before is None):
        health.metrics.targets.count_circuit_transition(*circuit.labels, is_open=circuit.blocked is not None)


def _has_other_key(health: TargetHealth, call: Call, error: GateError) -> bool:
    """Return whether the upstream refused one of several keys of its entry and another key is usable."""
    target = call.target
    provider = health.providers.get(target.provider) if target.key else None
    if provider is None or not isinstance(error, UpstreamKeyRefused):
        return False
    now = health.circuits.clock()
    return any(not health.keys.get_wait(target, key.fingerprint, now) for key in provider.keys)


def _note_key_failure(health: TargetHealth, call: Call, error: GateError) -> None:
    """Suspend the key of the target if the failure is about the key, and report it."""
    now = health.circuits.clock()
    seconds = health.keys.note_failure(call.target, error, now, health.circuits.rules)
    if seconds:
        health.metrics.targets.count_key_suspension(call.target.provider, describe_key(health, call.target), error.code)
    if isinstance(error, UpstreamKeyRefused):
        _warn_of_key(health, call, seconds)


def describe_key(health: TargetHealth, target: Target) -> str:
    """Return the number of the target's key in conf, "1" for the only key of an entry."""
    provider = health.providers.get(target.provider) if target.key else None
    key = provider.find_key(target.key) if provider is not None else None
    return "1" if key is None else str(key.number)


def _warn_of_key(health: TargetHealth, call: Call, seconds: float) -> None:
    target, now = call.target, health.circuits.clock()
    name = target.provider, target.key
    if now < health.key_warnings.get(name, 0.0):
        return
    health.key_warnings[name] = now + KEY_WARNING_SECONDS
    if target.key:
        log.warning(
            "the provider '%s' refused key %s of its keys, which rests for %g s: check providers.%s.api_keys, and the key's "
            "permissions and balance",
            target.provider,
            describe_key(health, target),
            seconds,
            target.provider,
            extra={"fields": _describe(call)},
        )
        return
    log.warning(
        "the provider '%s' refused the gateway's own key or account: check providers.%s.api_key, and the account's "
        "permissions and balance",
        target.provider,
        target.provider,
        extra={"fields": _describe(call)},
    )


def _describe(call: Call) -> dict[str, str]:
    target = call.target
    return {
        "request_id": call.id,
        "provider": target.provider,
        "model": target.model,
        "upstream_model": target.upstream_model,
    }
