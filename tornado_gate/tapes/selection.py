"""Which requests are recorded: those whose caller wishes it, and those that a rule of conf selects."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Final

from tornado_gate.config.globs import matches_any, matches_model
from tornado_gate.config.tapes import TapeRule, TapesConfig
from tornado_gate.errors import InvalidField, NotAllowed
from tornado_gate.pipeline import auth
from tornado_gate.plugins.wrappers import CONF_KEY
from tornado_gate.types import Caller

HEADER: Final = "x-gate-tape"
HEADER_SENT: Final = "X-Gate-Tape"


def read_wish(headers: Mapping[str, str], caller: Caller) -> str | None:
    """Return "1" or "0" if the header says whether to record, else None. Raises NotAllowed, InvalidField."""
    wish = headers.get(HEADER)
    if wish is not None:
        if not auth.is_administrator(caller):
            message = f"The header '{HEADER}' requires a key with the role administrator. Send the request without it."
            raise NotAllowed(message, code="administrator_required", param=HEADER)
        if wish not in ("0", "1"):
            raise InvalidField(HEADER, f"'{HEADER}' must be 1, to record this request, or 0.")
    return wish


def find_reason(rules: TapesConfig, wish: str | None, caller: Caller, model: str) -> str:
    """Return why a request is recorded, such as ``rule 1``; "" if it is not."""
    if wish is not None:
        return "header" if wish == "1" else ""
    rule = find_rule(rules, caller, model)
    return "" if rule is None else f"rule {rule}"


def find_rule(rules: TapesConfig, caller: Caller, model: str) -> int | None:
    """Return the number of the first rule, from 1, that selects a request; None if none does. A share is drawn by lot."""
    for number, rule in enumerate(rules.rules, 1):
        if not matches_key(rule, caller) or (rule.models and not matches_model(rule.models, model)):
            continue
        if rule.share >= 1 or random.random() < rule.share:
            return number
    return None


def matches_key(rule: TapeRule, caller: Caller) -> bool:
    """Return whether a rule is for the key of the caller: by its ID, the ID of its team, or its name in conf."""
    names = (caller.id, caller.team, caller.id.removeprefix(CONF_KEY))
    return not rule.keys or any(name and matches_any(rule.keys, name) for name in names)
