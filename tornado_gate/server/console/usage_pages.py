"""Usage: requests, tokens, errors and cost over time, by group, as a chart, a table and a file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from tornado_gate.accounts.keys import KeyStore
from tornado_gate.accounts.names import find_names
from tornado_gate.accounts.people import User
from tornado_gate.database.engine import Database
from tornado_gate.database.usage_tables import COUNTERS
from tornado_gate.errors import InvalidField
from tornado_gate.ledger.latencies import SAMPLE_FILTERS, ModelTimes, read_times
from tornado_gate.ledger.reports import Reports
from tornado_gate.ledger.rows import UsageRow
from tornado_gate.server.admin.csv_cells import render_csv
from tornado_gate.server.console import usage_chart
from tornado_gate.server.console.base import ConsoleHandler
from tornado_gate.server.console.languages.catalogues import mark, translate, translate_labels
from tornado_gate.server.console.latency_charts import draw_times, list_rows
from tornado_gate.server.console.usage_query import FIELDS, METRICS, RANGES, UsageView, parse_view
from tornado_gate.server.console.vocabulary import name_word
from tornado_gate.server.console.words import format_usd
from tornado_gate.server.services import Services
from tornado_gate.types.value import Value, replace

USAGE: Final = "/console/usage"
MOST_GROUPS: Final = 200
"""The maximum number of groups in the table; the file has all."""
OTHER: Final = mark("all others")
CSV_COLUMNS: Final = (
    "requests",
    "errors",
    "input_tokens",
    "cached_input_tokens",
    "output_tokens",
    "reasoning_tokens",
    "images",
    "seconds",
    "cost_usd",
    "unpriced_requests",
    "known_cost_usd",
)
_SEVERAL: Final = {"key": "keys", "user": "users", "end_user": "end_users"}
"""Groups that may have thousands of values, with the filter for several values.

Their chart shows the largest groups, and the sum of all.
"""
_DRILL = {
    "model": "key",
    "key": "model",
    "team": "user",
    "user": "key",
    "provider": "model",
    "tag": "model",
    "end_user": "model",
}
"""The next grouping for the usage of one group."""

Measure = Callable[[UsageRow], float]
_MEASURES: Final[Mapping[str, Measure]] = {
    "requests": lambda row: row.requests,
    "tokens": lambda row: row.input_tokens + row.output_tokens,
    "errors": lambda row: row.errors,
    "cost": lambda row: row.cost / 1e9,
}


class Group(Value, frozen=True, kw_only=True):
    """A row of the table. `name` is for people; `link` shows only this group, "" where that is not possible."""

    name: str
    row: UsageRow
    link: str


class UsageHandler(ConsoleHandler):
    """A page of usage."""

    access = "member"

    async def run_report(self, function: Any, *arguments: Any) -> Any:
        """Return the result of a function that makes a report. Raises InvalidField for one that cannot be made."""
        try:
            return await self.run_database(function, *arguments)
        except ValueError as error:
            raise InvalidField("group", f"This report cannot be made: {error}.") from None

    async def get_view(self) -> UsageView:
        memberships = await self.run_database(self.services.accounts.members.list_of_user, self.user.id)
        return parse_view(lambda name: self.get_query_argument(name, ""), self.user, memberships)


class UsagePage(UsageHandler):
    """`/console/usage`."""

    async def get(self) -> None:
        view = await self.get_view()
        rows, series = await self.run_report(load_usage, Reports(self.services.database), view, self.user)
        names = await self._find_names(view, [row.group[view.group] for row in rows[:MOST_GROUPS]])
        total = await self.run_report(sum_all, Reports(self.services.database), view, self.user, rows)
        times = await self._read_times(view)
        recorded = await self.run_database(count_recorded, Reports(self.services.database), view, self.user)
        models = list(self.snapshot.config.models)
        found = [name for name, _ in series if name != OTHER]
        colours = usage_chart.choose_colours(found, models if view.group == "model" else ())
        self.render_page(
            "usage.html",
            title=translate("Usage"),
            view=view,
            fields=FIELDS,
            ranges=dict(translate_labels(RANGES.items())),
            metrics=METRICS,
            total=total,
            tokens=total.input_tokens + total.output_tokens,
            groups=[self._make_group(view, row, names) for row in rows[:MOST_GROUPS]],
            group_count=len(rows),
            others=max(0, recorded - total.requests),
            filter_names=await self._name_filters(view),
            main_chart=self._draw_chart(view, series, (names, colours), total),
            time_charts=draw_times(times, view, models, colours if view.group == "model" else {}),
            time_rows=list_rows(times[: usage_chart.MOST_SERIES]),
        )

    async def _read_times(self, view: UsageView) -> list[ModelTimes]:
        """Return the times of models; none for a filter that the sample cannot follow."""
        if not view.filters.keys() <= set(SAMPLE_FILTERS):
            return []
        query = view.make_query(self.user)
        times: list[ModelTimes] = await self.run_database(read_times, self.services.database, query, view.bar_seconds)
        return times

    async def _find_names(self, view: UsageView, ids: Sequence[str]) -> dict[str, str]:
        known = await self.run_database(find_names, self.services.database, view.group, ids)
        names = {identity: known.get(identity) or name_group(view.group, identity) for identity in ids}
        uses = Counter(names.values())
        return {identity: name if uses[name] == 1 else f"{name} ({identity})" for identity, name in names.items()}

    async def _name_filters(self, view: UsageView) -> list[tuple[str, str, str]]:
        """Return the active filters: (kind, name, address without it). The filter of models has a field instead."""
        filters = []
        for kind, value in view.filters.items():
            known = await self.run_database(_name_filter, self.services, self.user, view.whose, kind, value)
            filters.append((kind, known or value, view.make_link(**{kind: ""})))
        return filters

    def _make_group(self, view: UsageView, row: UsageRow, names: Mapping[str, str]) -> Group:
        value = row.group[view.group]
        next_group = _DRILL.get(view.group, "")
        link = ""
        if next_group and value and not (view.group == "user" and view.whose == "me"):
            group = next_group if next_group in view.groups else "model"
            link = view.make_link(**{view.group: value, "group": group})
        return Group(name=names[value], row=row, link=link)

    def _draw_chart(
        self,
        view: UsageView,
        series: Sequence[usage_chart.Series],
        looks: tuple[Mapping[str, str], Mapping[str, str]],
        total: UsageRow,
    ) -> usage_chart.Chart:
        """Return the chart of stacked bars. `looks` are the names and the colours of groups, by id."""
        names, colours = looks
        is_cost = view.metric == "cost"
        format_value: Callable[[float], str] = format_usd if is_cost else usage_chart.format_short
        shown = format_value(_MEASURES[view.metric](total))
        return usage_chart.draw_chart(
            [(names.get(name, name), values) for name, values in series],
            start=view.start,
            bar_seconds=view.bar_seconds,
            title=translate("{metric} by {group} and {bar}").format(
                metric=translate(METRICS[view.metric]), group=name_word(view.group), bar=name_word(view.bar_name)
            ),
            summary=translate("{shown} in all from {first} to {last} (UTC). The table below has the numbers.").format(
                shown=shown, first=view.first, last=view.last
            ),
            format_value=format_value,
            least=0.01 if is_cost else 4.0,
            colours=[colours.get(name, usage_chart.OTHER_COLOUR) for name, _ in series],
        )


class UsageFile(UsageHandler):
    """`/console/usage.csv`: all groups and times of the view."""

    async def get(self) -> None:
        view = await self.get_view()
        text = await self.run_report(make_file, self.services.database, view, self.user)
        self.set_header("Content-Type", "text/csv; charset=utf-8")
        name = f"usage-{view.first}-{view.last}-by-{view.group}.csv"
        self.set_header("Content-Disposition", f'attachment; filename="{name}"')
        self.finish(text)


def _name_filter(services: Services, user: User, whose: str, kind: str, value: str) -> str:
    """Return the name of a key, user or team in the address of a page, "" if the visitor may not see it. Blocks."""
    name = find_names(services.database, kind, [value]).get(value, "")
    if not name or user.role == "administrator":
        return name
    if kind == "key":
        key = KeyStore(services.database).get(value)
        return name if user.id == key.user or whose == key.team else ""
    members = [member.user.id for member in services.accounts.members.list_of_team(whose)] if kind == "user" else []
    return name if value in members else ""


def load_usage(reports: Reports, view: UsageView, user: User) -> tuple[list[UsageRow], list[usage_chart.Series]]:
    """Return the sums by group, the largest first, and the series of the chart, whose names are the groups' values.
    Blocks.
    """
    measure = _MEASURES[view.metric]
    is_large = view.group in _SEVERAL
    parts = reports.usage(view.make_query(user, view.bar_name, *(() if is_large else (view.group,))))
    rows = reports.usage(view.make_query(user, view.group)) if is_large else _add_groups(parts, view.group)
    rows.sort(key=lambda row: (-measure(row), -row.requests))
    chosen = [row.group[view.group] for row in rows if measure(row) > 0][: usage_chart.MOST_SERIES]
    collected = _Series(view, measure)
    for row in parts:
        value = row.group.get(view.group)
        collected.add(value if value in chosen else OTHER, row)
    if is_large and chosen:
        query = replace(view.make_query(user, view.bar_name, view.group), **{_SEVERAL[view.group]: tuple(chosen)})
        for row in reports.usage(query):
            collected.move(OTHER, row.group[view.group], row)
    return rows, collected.list(chosen)


def count_recorded(reports: Reports, view: UsageView, user: User) -> int:
    """Return the number of all recorded requests, also of those that made nothing, such as polls. Blocks."""
    return add_rows(reports.usage(view.make_query(user, "operation"))).requests


def sum_all(reports: Reports, view: UsageView, user: User, rows: Sequence[UsageRow]) -> UsageRow:
    """Return the sums of all requests of a view. Groups of tags overlap, so their sums are no total. Blocks."""
    return add_rows(reports.usage(view.make_query(user))) if view.group == "tag" else add_rows(rows)


def _add_groups(parts: Iterable[UsageRow], name: str) -> list[UsageRow]:
    """Return the sums by the group `name` alone."""
    groups: dict[str, list[UsageRow]] = {}
    for row in parts:
        groups.setdefault(row.group[name], []).append(row)
    return [replace(add_rows(rows), group={name: value}) for value, rows in groups.items()]


class _Series:
    """The series of a chart, with the values of their bars."""

    def __init__(self, view: UsageView, measure: Measure) -> None:
        self._view = view
        self._measure = measure
        self._bars = (view.end - view.start) // view.bar_seconds
        self._values: dict[str, list[float]] = {}

    def add(self, name: str, row: UsageRow, sign: int = 1) -> None:
        begin = datetime.fromisoformat(row.group[self._view.bar_name])
        moment = begin if begin.tzinfo else begin.replace(tzinfo=UTC)
        index = int(moment.timestamp() - self._view.start) // self._view.bar_seconds
        if 0 <= index < self._bars:
            self._values.setdefault(name, [0.0] * self._bars)[index] += sign * self._measure(row)

    def move(self, source: str, name: str, row: UsageRow) -> None:
        """Count the values of a row for the series `name` instead of the series `source`."""
        self.add(source, row, -1)
        self.add(name, row)

    def list(self, order: Sequence[str]) -> list[usage_chart.Series]:
        """Return the series that have values, in this order, all others last."""
        return [(name, self._values[name]) for name in (*order, OTHER) if any(self._values.get(name, ()))]


def add_rows(rows: Sequence[UsageRow]) -> UsageRow:
    """Return the sums of all rows."""
    return UsageRow(**{name: sum([getattr(row, name) for row in rows]) for name in COUNTERS})


def name_group(group: str, value: str) -> str:
    """Return a group without a name in the database, in words."""
    if not value:
        return {
            "key": translate("no key"),
            "team": translate("no team"),
            "user": translate("no user"),
            "model": translate("no model"),
            "end_user": translate("no end user"),
        }.get(group) or translate("none")
    return value.removeprefix("conf:") + " (conf)" if value.startswith("conf:") else value


def make_file(database: Database, view: UsageView, user: User) -> str:
    """Return the view as CSV. Blocks."""
    rows = Reports(database).usage(view.make_query(user, view.bar_name, view.group))
    names = find_names(database, view.group, {row.group[view.group] for row in rows})
    lines = []
    for row in rows:
        value = row.group[view.group]
        texts = (row.group[view.bar_name], value, names.get(value) or name_group(view.group, value))
        lines.append((*texts, *(getattr(row, column) for column in CSV_COLUMNS)))
    return render_csv((view.bar_name, view.group, "name", *CSV_COLUMNS), lines)


ROUTES: list[tuple[str, type[ConsoleHandler]]] = [(USAGE, UsagePage), (rf"{USAGE}\.csv", UsageFile)]
