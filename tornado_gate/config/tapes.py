"""The section ``tapes``: which requests are recorded on the wire, and how much disk the recordings may take."""

from __future__ import annotations

from tornado_gate.types.value import Value


class TapeRule(Value, frozen=True, kw_only=True):
    """Requests that are recorded: `share` (0 to 1) of those with a model and a key that the globs match.

    Empty globs match everything. `keys` are globs of a key's ID or of its name in conf.
    """

    models: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()
    share: float = 1.0


class TapesConfig(Value, frozen=True, kw_only=True):
    """The tapes of all processes of a node. The oldest ones leave when there are more than `most`, or `total_bytes`.

    A tape has at most `tape_bytes`, and is deleted after `keep_seconds`.
    """

    rules: tuple[TapeRule, ...] = ()
    most: int = 100
    tape_bytes: int = 1024 * 1024
    total_bytes: int = 64 * 1024 * 1024
    keep_seconds: float = 7 * 24 * 3600.0
