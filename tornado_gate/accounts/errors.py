"""Errors of accounts and keys, which pages and the admin API show to people. Errors of model requests are in
`tornado_gate.errors`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any


class AccountError(Exception):
    """A refused action. `message` is for people, `code` for programs; `field` is the wrong field of the form, or "".

    `others` are errors of further fields of the same form.
    """

    status = 400
    code = "invalid"

    def __init__(self, message: str, *, code: str = "", field: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.field = field
        self.code = code or self.code
        self.others: tuple[AccountError, ...] = ()


class NotFound(AccountError):
    """The user, team, invitation or link does not exist, or has expired."""

    status = 404
    code = "not_found"


class Conflict(AccountError):
    """The state of the accounts forbids the change: the name is in use, or the user is the last administrator."""

    status = 409
    code = "conflict"


class Denied(AccountError):
    """The actor has no right to do this."""

    status = 403
    code = "denied"


class SignInFailed(AccountError):
    """A wrong e-mail or password. An e-mail without an account causes the same error."""

    status = 401
    code = "sign_in_failed"

    def __init__(self) -> None:
        super().__init__("The e-mail or the password is wrong.")


class TooManyAttempts(AccountError):
    """Too many failed attempts from one network. `retry_after` is in whole seconds, at least 1."""

    status = 429
    code = "too_many_attempts"

    def __init__(self, retry_after: float) -> None:
        self.retry_after = max(1, int(retry_after + 0.999))
        minutes = -(-self.retry_after // 60)
        wait = f"{minutes} minutes" if minutes > 1 else f"{self.retry_after} s"
        super().__init__(f"Too many attempts from your network. Try again in {wait}.")


def check_all(checks: Mapping[str, Callable[[], Any]]) -> dict[str, Any]:
    """Return the results of all checks by name. Raises the AccountError of the first one that fails, with all `others`."""
    results, errors = {}, []
    for name, check in checks.items():
        try:
            results[name] = check()
        except AccountError as error:
            errors += [error, *error.others]
    if errors:
        errors[0].others = tuple(errors[1:])
        raise errors[0]
    return results
