"""Errors of accounts, which pages and the admin API show to people. Keys and requests of models have `tornado_gate.errors`."""

from __future__ import annotations


class AccountError(Exception):
    """A refused action. `code` is for programs, `message` for people; `field` is the form's field that is wrong, or ""."""

    status = 400

    def __init__(self, code: str, message: str, field: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.field = field


class NotFound(AccountError):
    """The user, team, invitation or link does not exist, or has expired."""

    status = 404


class Conflict(AccountError):
    """The state of the accounts does not allow the change: a name that is taken, the last administrator."""

    status = 409


class Denied(AccountError):
    """The actor has no right to do this."""

    status = 403


class SignInFailed(AccountError):
    """A wrong e-mail or password. The same for an e-mail without an account."""

    status = 401

    def __init__(self) -> None:
        super().__init__("sign_in_failed", "The e-mail or the password is wrong.")


class TooManyAttempts(AccountError):
    """Too many failed attempts from one address. `retry_after` is in whole seconds, at least 1."""

    status = 429

    def __init__(self, retry_after: float) -> None:
        self.retry_after = max(1, int(retry_after + 0.999))
        minutes = -(-self.retry_after // 60)
        wait = f"{minutes} minutes" if minutes > 1 else "1 minute"
        super().__init__("too_many_attempts", f"Too many attempts from your network. Try again in {wait}.")
