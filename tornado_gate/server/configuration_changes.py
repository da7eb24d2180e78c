"""Changes of the configuration by administrators: checked in a thread, applied, recorded in the audit log, and loaded.

The console and /admin/v1 use it. A secret goes to the encrypted store, and conf gets a reference to it.
"""

from __future__ import annotations

import asyncio
import re
import secrets
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, TypeVar

from tornado_gate.accounts.audit import record
from tornado_gate.accounts.people import Actor
from tornado_gate.codec.secret_words import is_harmless, is_secret_name, is_secret_value
from tornado_gate.config.entry_edits import Step
from tornado_gate.config.model import Config
from tornado_gate.config.secret_store import SecretError
from tornado_gate.errors import GateError, InvalidField, RequestError, Unavailable
from tornado_gate.server.control.shared_secrets import open_secret_store
from tornado_gate.server.process.conf_change import ChangeRefused, Review, apply_change
from tornado_gate.server.services import Services
from tornado_gate.types.value import Value

T = TypeVar("T")

CHECK_SECONDS = 60.0
RELOAD_SECONDS: Final = 15.0
"""The longest wait until this process uses a changed file."""
MAX_SHOWN_FAULTS: Final = 5
_OTHER: Final = re.compile(r"[^A-Za-z0-9]+")


class AppliedChange(Value, frozen=True, kw_only=True):
    """A change of the file. `version` is the new version of the file; `applied`: this process uses it already.

    `diff` has no secrets. `notes` are findings of the check that did not prevent the change. `rejected` are the faults for which
    a process did not load the file.
    """

    version: str
    applied: bool
    diff: str
    notes: tuple[str, ...] = ()
    rejected: tuple[str, ...] = ()


async def run_check(check: Callable[..., T], *arguments: Any, **named: Any) -> T:
    """Return the result of a check. It runs in a thread because it imports plugins. Raises Unavailable if it hangs."""
    try:
        async with asyncio.timeout(CHECK_SECONDS):
            return await asyncio.to_thread(check, *arguments, **named)
    except TimeoutError:
        message = f"The check has no result after {CHECK_SECONDS:.0f} s. Run 'tornado-gate check': a plugin may hang."
        raise Unavailable(message) from None


async def change_configuration(
    services: Services, actor: Actor, action: str, name: str, steps: Sequence[Step], *, version: str | None = None
) -> AppliedChange:
    """Apply changes, record them and wait until this process uses them. Raises GateError.

    With `version`, a file of another version is not changed.
    """
    config = services.gate.snapshot.config
    try:
        message = f"{action} {name}"
        review = await run_check(apply_change, config, steps, version, author=actor.name, message=message)
    except ChangeRefused as error:
        raise convert_refusal(error) from error
    detail = {"file": review.file, "diff": review.diff[:2000]}
    await services.database.run(record_change, services, actor, action, name, detail)
    applied, rejected = await _wait_until_loaded(services, review)
    return AppliedChange(
        version=review.new_digest, applied=applied, diff=review.diff, notes=review.notes, rejected=rejected
    )


def convert_refusal(error: ChangeRefused) -> GateError:
    """Return the error for callers: 409 for a changed or protected file, 400 for a change with faults."""
    review, message = error.review, str(error)
    if error.is_stale:
        message = (
            "The configuration file has another version now. Read GET /admin/v1/configuration and repeat the change."
        )
        return RequestError(message, param="version", code="configuration_changed", status=409)
    if review is not None and review.faults:
        return RequestError(f"{message} {'; '.join(review.faults[:MAX_SHOWN_FAULTS])}", code="invalid_configuration")
    lines = f" Lines of the change:\n{review.lines}" if review is not None and review.lines else ""
    return RequestError(message + lines, code="configuration_not_writable", status=409)


async def _wait_until_loaded(services: Services, review: Review) -> tuple[bool, tuple[str, ...]]:
    """Return whether this process uses the new file, and the faults for which it does not."""
    state, gate = services.configuration, services.gate
    if not review.diff or not state.is_watched:
        return not review.diff, ()
    ends = time.monotonic() + RELOAD_SECONDS
    while gate.snapshot.config.version != review.new_digest:
        rejected = state.rejected
        state.request_reload()
        await state.wait_for_change(ends - time.monotonic())
        if state.rejected is not None and state.rejected is not rejected:
            return False, state.rejected.faults
        if time.monotonic() >= ends:
            return False, ()
    return True, ()


def record_change(services: Services, actor: Actor, action: str, name: str, detail: Mapping[str, Any]) -> None:
    """Add the change to the audit log. Synchronous."""
    with services.database.write() as connection:
        record(connection, actor, action, name, **detail)


def store_key(config: Config, provider: str, key: str) -> str:
    """Keep the key of a provider entry as a new secret, and return the reference for conf. Synchronous. Raises GateError.

    Each key gets a new name: the running configuration, and an earlier text of the file, keep theirs. A key that no conf
    names is deleted after a month.
    """
    name = make_secret_prefix(provider) + secrets.token_hex(4)
    try:
        open_secret_store(config).write(name, key, is_draft=True)
    except SecretError as error:
        raise InvalidField("api_key", f"The key cannot be kept: {error}.") from error
    return f"${{secret:{name}}}"


def store_secrets(config: Config, provider: str, entry: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Keep the secrets of an entry in the store: its keys, and texts whose names or forms show that they are secret.

    Return the entry with references, and the references. Synchronous. Raises GateError.
    """
    references: list[str] = []

    def replace_secret(value: Any, name: str) -> Any:
        if isinstance(value, Mapping):
            return {
                key: replace_secret(item, name if is_secret_name(name) else str(key)) for key, item in value.items()
            }
        if isinstance(value, list):
            return [replace_secret(item, name) for item in value]
        is_secret = isinstance(value, str) and (is_secret_name(name) or is_secret_value(value))
        if not is_secret or is_harmless(value):
            return value
        references.append(store_key(config, provider, value))
        return references[-1]

    try:
        return {member: replace_secret(value, member) for member, value in entry.items()}, references
    except GateError:
        forget_keys(config, references)
        raise


def forget_keys(config: Config, references: Iterable[str]) -> None:
    """Delete secrets that no conf names. Synchronous. Failures are ignored: they are deleted after a month."""
    store = open_secret_store(config)
    for reference in references:
        with suppress(SecretError):
            store.remove(reference.removeprefix("${secret:").removesuffix("}"))


def make_secret_prefix(provider: str) -> str:
    """Return the beginning of the names of the secrets of a provider entry."""
    return f"{_OTHER.sub('-', provider).strip('-')[:60] or 'provider'}-key-"
