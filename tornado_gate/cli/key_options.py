"""Options of `keys create`, with the functions that read their values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])

LONGEST_WORD = 200
_BOUNDS = (
    ("requests_per_minute", "limits", "requests in any 60 seconds"),
    ("tokens_per_minute", "limits", "tokens in any 60 seconds"),
    ("concurrent_requests", "limits", "open requests and realtime sessions, in each process"),
    ("usd_per_day", "budget", "US dollars in a UTC day"),
    ("usd_per_month", "budget", "US dollars in a UTC month"),
    ("tokens_per_day", "budget", "tokens in a UTC day"),
    ("tokens_per_month", "budget", "tokens in a UTC month"),
)
"""Field of a key, the group that has it, and the counted unit. Each has a separate flag."""


def parse_name(_context: click.Context, option: click.Parameter, value: str | None) -> str | None:
    from tornado_gate.accounts.errors import AccountError
    from tornado_gate.accounts.key_checks import check_name

    try:
        return None if value is None else check_name(value, str(option.name))
    except AccountError as error:
        raise click.BadParameter(error.message) from None


def parse_expiry(_context: click.Context, _option: click.Parameter, value: str | None) -> float | None:
    """Return a duration or a date as Unix seconds."""
    from tornado_gate.codec.durations import parse_moment

    try:
        return None if value is None else parse_moment(value)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


def parse_overlap(_context: click.Context, _option: click.Parameter, value: str) -> float:
    """Return a duration in seconds; ``0`` needs no unit."""
    from tornado_gate.codec.durations import parse_duration

    try:
        return 0.0 if value.strip() == "0" else parse_duration(value)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


def parse_list(_context: click.Context, _option: click.Parameter, value: str | None) -> tuple[str, ...]:
    """Return the words of a comma-separated list. An empty list is refused: it would allow everything."""
    if value is None:
        return ()
    words = tuple(word.strip() for word in value.split(","))
    if not all(words):
        raise click.BadParameter("has an empty entry; leave the option out to allow all")
    if not value.isprintable() or any(len(word) > LONGEST_WORD for word in words):
        raise click.BadParameter(f"must be names of up to {LONGEST_WORD} characters without control characters")
    return words


def parse_checked_list(context: click.Context, option: click.Parameter, value: str | None) -> tuple[str, ...]:
    """Return the words as `parse_list` does, for the field of a key with the option's name."""
    from tornado_gate.accounts.errors import AccountError
    from tornado_gate.accounts.key_checks import CHECKS

    try:
        return tuple(CHECKS[str(option.name)](parse_list(context, option, value)))
    except AccountError as error:
        raise click.BadParameter(error.message) from None


def _parse_limits(_context: click.Context, _option: click.Parameter, values: tuple[str, ...]) -> dict[str, Any]:
    from tornado_gate.accounts.bound_texts import parse_limits

    return _merge_values(parse_limits, values)


def _parse_budget(_context: click.Context, _option: click.Parameter, values: tuple[str, ...]) -> dict[str, Any]:
    from tornado_gate.accounts.bound_texts import parse_budget

    return _merge_values(parse_budget, values)


def _merge_values(parse: Callable[[str], dict[str, Any]], values: tuple[str, ...]) -> dict[str, Any]:
    from tornado_gate.accounts.errors import AccountError

    try:
        return parse(",".join(values)) if values else {}
    except AccountError as error:
        raise click.BadParameter(error.message) from None
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


def bound_options(command: F) -> F:
    """Add --limit, --budget, and a flag for each bound. `take_bounds` reads them."""
    for field, group, unit in reversed(_BOUNDS):
        name = f"--budget-{field.replace('_', '-')}" if group == "budget" else f"--{field.replace('_', '-')}"
        metavar = "USD" if field.startswith("usd") else "N"
        kind = click.FLOAT if metavar == "USD" else click.INT
        command = click.option(name, field, type=kind, metavar=metavar, help=f"At most N {unit}.")(command)
    command = click.option(
        "--budget",
        "budget",
        callback=_parse_budget,
        multiple=True,
        metavar="B,…",
        help="What may be spent: 5/d (US dollars a day), 100/mo, tokens=1M/d.",
    )(command)
    return click.option(
        "--limit",
        "limits",
        callback=_parse_limits,
        multiple=True,
        metavar="L,…",
        help="Limits: requests=60/m, tokens=100k/m, concurrent=10.",
    )(command)


def take_bounds(options: dict[str, Any]) -> None:
    """Move the flags of single bounds in `options` to the limits and the budget there. Exits if one is wrong or repeated."""
    from tornado_gate.accounts.errors import AccountError
    from tornado_gate.accounts.key_checks import CHECKS

    for field, group, _what in _BOUNDS:
        value = options.pop(field)
        if value is None:
            continue
        hint = f"--{'budget-' if group == 'budget' else ''}{field.replace('_', '-')}"
        if field in options[group]:
            raise click.BadParameter(f"is also given by --{group.removesuffix('s')}; give one", param_hint=hint)
        try:
            options[group] |= CHECKS[group]({field: value})
        except AccountError as error:
            raise click.BadParameter(error.message, param_hint=hint) from None
