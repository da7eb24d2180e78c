"""Every error code that the gateway can produce has words, and so has every action of the audit log."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tornado_gate.server.console.audit_words import ACTIONS, describe_action, describe_detail
from tornado_gate.server.console.reasons import REASONS, find_reason
from tornado_gate.types.upstream_objects import OBJECT_KINDS

ROOT = Path(__file__).parents[3]
CORE = ROOT / "tornado_gate"
WITHOUT_CALLERS = ("accounts", "cli", "testing")
"""Packages whose errors no caller of a model gets."""


def list_sources() -> list[Path]:
    core = [path for path in CORE.rglob("*.py") if path.relative_to(CORE).parts[0] not in WITHOUT_CALLERS]
    pages = (CORE / "server/console", CORE / "server/admin", CORE / "server/openapi")
    plugins = [path for path in ROOT.glob("plugins/*/tornado_gate_*/**/*.py") if "egg-info" not in str(path)]
    return [path for path in core if not any(page in path.parents for page in pages)] + plugins


def find_codes(tree: ast.Module) -> Iterator[str]:
    """The codes in class attributes ``code = "…"`` and in arguments ``code="…"``, also on both sides of a condition."""
    for node in ast.walk(tree):
        values: list[ast.expr] = []
        if isinstance(node, ast.ClassDef):
            for line in node.body:
                targets = line.targets if isinstance(line, ast.Assign) else [getattr(line, "target", None)]
                if isinstance(line, ast.Assign | ast.AnnAssign) and line.value is not None:
                    values += [line.value for target in targets if getattr(target, "id", "") == "code"]
        elif isinstance(node, ast.Call):
            values += [keyword.value for keyword in node.keywords if keyword.arg == "code"]
        for value in values:
            branches = [value.body, value.orelse] if isinstance(value, ast.IfExp) else [value]
            yield from (one.value for one in branches if isinstance(one, ast.Constant) and isinstance(one.value, str))


def test_every_error_code_has_words() -> None:
    codes: dict[str, str] = {}
    for path in list_sources():
        codes |= dict.fromkeys(find_codes(ast.parse(path.read_text(encoding="utf-8"))), path.name)
    codes.pop("", None)
    assert len(codes) > 90
    missing = {code: file for code, file in codes.items() if code not in REASONS}
    assert missing == {}


@pytest.mark.parametrize("code", sorted(REASONS))
def test_a_reason_is_two_sentences(code: str) -> None:
    reason = REASONS[code]
    for text in (reason.meaning, reason.advice):
        assert re.fullmatch(r"[A-Z].*[.]", text), text
        assert len(text) < 160


@pytest.mark.parametrize("kind", OBJECT_KINDS)
def test_the_codes_of_unknown_objects_have_words(kind: str) -> None:
    assert "does not exist" in find_reason(f"{kind}_not_found").meaning


def test_an_unknown_code_is_explained_by_the_outcome() -> None:
    assert find_reason("vendor_says_no", "refused").meaning == "The request was refused."
    assert find_reason("", "aborted").meaning.startswith("The caller closed")
    assert find_reason("", "unheard of").meaning


@pytest.mark.qa
def test_every_action_of_the_audit_log_has_words() -> None:
    used: set[str] = set()
    for path in CORE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "record" and len(node.args) > 2:
                used |= {one.value for one in ast.walk(node.args[2]) if isinstance(one, ast.Constant)}
    assert {action for action in used if "." in str(action)} - set(ACTIONS) == set()
    assert describe_action("new.action") == "new.action"


def test_details_are_readable() -> None:
    detail = {"role": "member", "before": None, "budget": {"usd_per_day": 5}, "models": ["a", "b"], "on": True, "l": []}
    assert (
        describe_detail(detail) == "role: member, before: none, budget: (US dollars per day 5), models: a b, on: yes, l: none"
    )
