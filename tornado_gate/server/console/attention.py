"""What needs attention: the alerts of now in the visitor's language, each with the page on which one can help."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal
from urllib.parse import quote

from tornado_gate.accounts.keys import StoredKey
from tornado_gate.accounts.limit_overrides import CONF_KEY
from tornado_gate.config.model import Config
from tornado_gate.ledger.spending import find_period
from tornado_gate.pipeline.gate import Gate
from tornado_gate.server.console.bound_bars import LINKS, Bar
from tornado_gate.server.console.languages.catalogues import translate
from tornado_gate.types.value import Value

if TYPE_CHECKING:
    from tornado_gate.alerts.values import Alert, Words  # conf may have no alerts

USAGE: Final = "/console/usage"
MAX_ITEMS: Final = 20
"""The number of items on the page."""


class Item(Value, frozen=True, kw_only=True):
    """An alert with the page that helps. `level`: ``bad`` or ``warn``."""

    level: Literal["bad", "warn"]
    text: str
    reason: str
    link: str


async def list_gateway_items(gate: Gate, run: Callable[..., Awaitable[Any]]) -> list[Item]:
    """Return what needs attention of administrators. Every page has a rejected configuration already. `run`: as of
    `list_present`.
    """
    from tornado_gate.alerts.present import list_present

    config = gate.snapshot.config
    return [_make_item(alert, _find_page(alert, config)) for alert in await list_present(gate, (), run)]


def list_own_items(bars: Iterable[Bar], keys: Sequence[StoredKey], managed_teams: Sequence[str]) -> list[Item]:
    """Return what needs attention of a member: own budgets, those of the member's teams, and own keys."""
    from tornado_gate.alerts.accounts import Share, describe_budgets, describe_expiries

    now = time.time()
    shares = (Share(bound=bar.bound, used=bar.amount) for bar in bars if bar.is_budget)
    alerts = describe_budgets(shares, find_period(now))
    alerts += describe_expiries((key for key in keys if not key.replaced_by), now)
    return [_make_item(alert, _find_own_page(alert, managed_teams)) for alert in alerts]


def _make_item(alert: Alert, link: str) -> Item:
    level: Literal["bad", "warn"] = "bad" if alert.severity == "critical" else "warn"
    return Item(level=level, text=_say(alert.heading), reason=_say(alert.explanation), link=link)


def _say(words: Words) -> str:
    return translate(words.template).format_map(words.values)


def _find_page(alert: Alert, config: Config) -> str:
    """Return the page on which an administrator can change the subject. Subjects of conf have no page but their usage."""
    kind, name = alert.subject
    if kind == "provider":
        return f"/console/providers#provider-{name}"
    entries = {"user": config.users, "team": config.teams}.get(kind, {})
    if kind not in LINKS or name in entries or name.startswith(CONF_KEY):
        return f"{USAGE}?{kind}={quote(name)}" if kind else USAGE
    return f"{LINKS[kind]}{quote(name)}"


def _find_own_page(alert: Alert, managed_teams: Sequence[str]) -> str:
    """Return the page on which a member can change the subject, or else see what has used the budget."""
    kind, name = alert.subject
    return f"{LINKS[kind]}{quote(name)}" if kind == "key" or name in managed_teams else USAGE
