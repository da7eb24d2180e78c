"""Why a change of accounts is refused. Messages are for people; `field` names the field of a form, "" for none."""

from __future__ import annotations


class AccountError(Exception):
    """A refusal that is shown to the person who asked."""

    code = "invalid"

    def __init__(self, message: str, *, field: str = "", code: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.field = field
        self.code = code or self.code


class NotFound(AccountError):
    code = "not_found"


class Conflict(AccountError):
    code = "conflict"


class Denied(AccountError):
    code = "denied"


class SignInFailed(AccountError):
    code = "sign_in_failed"


class TooManyAttempts(AccountError):
    """`retry_after` is in seconds."""

    code = "too_many_attempts"

    def __init__(self, message: str, retry_after: int) -> None:
        super().__init__(message)
        self.retry_after = retry_after
