"""The alert rules and the dashboards of deploy/, and the series that their expressions select."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import promql_parser
import yaml

DEPLOY = Path(__file__).parents[2] / "deploy"
ALERTS = DEPLOY / "prometheus" / "alerts.yml"
DASHBOARDS = sorted((DEPLOY / "grafana").glob("*.json"))
_OPERATORS = {"MatchOp.Equal": "=", "MatchOp.NotEqual": "!=", "MatchOp.Re": "=~", "MatchOp.NotRe": "!~"}
_VARIABLES = {"$__rate_interval": "5m", "$__interval": "1m", "$__range": "1h"}


@dataclass(frozen=True, slots=True)
class Selector:
    """A selector of series: the name of a metric, and matchers as (label, operator, value)."""

    metric: str
    matchers: tuple[tuple[str, str, str], ...]

    def selects(self, name: str, labels: dict[str, str]) -> bool:
        return name == self.metric and all(
            _matches(labels.get(label, ""), op, value) for label, op, value in self.matchers
        )


def _matches(actual: str, operator: str, value: str) -> bool:
    if operator in ("=", "!="):
        return (actual == value) == (operator == "=")
    return (re.fullmatch(value, actual) is not None) == (operator == "=~")


def read_rules() -> dict[str, dict[str, Any]]:
    """Return the alert rules by name."""
    groups = yaml.safe_load(ALERTS.read_text(encoding="utf-8"))["groups"]
    return {rule["alert"]: rule for group in groups for rule in group["rules"]}


def read_dashboard_expressions() -> Iterator[tuple[str, str]]:
    """Yield (dashboard and panel, expression) of every query, with its variables replaced."""
    for path in DASHBOARDS:
        dashboard = json.loads(path.read_text(encoding="utf-8"))
        for panel in dashboard["panels"]:
            for target in panel.get("targets", []):
                yield f"{path.name}: {panel['title']}", fill_variables(target["expr"])
        for variable in dashboard["templating"]["list"]:
            if variable["type"] == "query":
                name, label = re.fullmatch(r"label_values\((\w+), (\w+)\)", variable["query"]["query"]).groups()  # type: ignore[union-attr]
                yield f"{path.name}: ${variable['name']}", f"sum by ({label}) ({name})"


def fill_variables(expression: str) -> str:
    for name, value in _VARIABLES.items():
        expression = expression.replace(name, value)
    return re.sub(r"\$\{?[a-z]+\}?", ".*", expression)


def list_selectors(expression: str) -> list[Selector]:
    """Return the selectors of an expression. Raises ValueError for one that is not PromQL."""
    found: list[Selector] = []

    def visit(node: Any) -> bool:
        if isinstance(node, promql_parser.VectorSelector):
            matchers = node.matchers.matchers
            found.append(
                Selector(node.name, tuple((each.name, _OPERATORS[str(each.op)], each.value) for each in matchers))
            )
        return True

    promql_parser.walk(promql_parser.parse(expression), visit)
    return found


def list_labels(expression: str) -> set[str]:
    """Return the labels by which an expression groups."""
    return {
        label.strip()
        for labels in re.findall(r"\b(?:by|without) ?\(([^)]*)\)", expression)
        for label in labels.split(",")
    }
