"""Charts of the times of models: to the first token, and in all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tornado_gate.ledger.latencies import ModelTimes, Percentiles
from tornado_gate.server.console import usage_chart
from tornado_gate.server.console.languages.catalogues import translate
from tornado_gate.server.console.usage_query import UsageView
from tornado_gate.types.value import Value


class TimesRow(Value, frozen=True, kw_only=True):
    """A row of the table beside the charts: percentiles over all bars, in words."""

    model: str
    requests: int
    first: tuple[str, str]
    total: tuple[str, str]


def draw_times(
    times: Sequence[ModelTimes], view: UsageView, models: Sequence[str], known: Mapping[str, str]
) -> list[usage_chart.Chart]:
    """Return the two charts of the most used models, or none without requests. `models` are the names in conf, `known` the
    colours of models on the page.
    """
    shown = times[: usage_chart.MOST_SERIES]
    colours = usage_chart.choose_colours([each.model for each in shown], models, known)
    parts = (
        ("first-token", translate("Time to the first token"), [(each.model, each.first) for each in shown]),
        ("total-time", translate("Time in all"), [(each.model, each.total) for each in shown]),
    )
    return [
        _draw(name, title, [(model, values) for model, values in series if any(values)], colours, view)
        for name, title, series in parts
        if any(any(values) for _, values in series)
    ]


def _draw(
    name: str,
    title: str,
    series: Sequence[tuple[str, Sequence[Percentiles | None]]],
    colours: Mapping[str, str],
    view: UsageView,
) -> usage_chart.Chart:
    pairs = [
        (
            (model, colours[model], [value and value.p50 for value in values]),
            (model, colours[model], [value and value.p95 for value in values]),
        )
        for model, values in series
    ]
    summary = translate("The median of each model, and dashed the time below which 95% of the requests are.")
    return usage_chart.draw_curves(
        name, pairs, start=view.start, bar_seconds=view.bar_seconds, title=title, summary=summary
    )


def list_rows(times: Sequence[ModelTimes]) -> list[TimesRow]:
    """Return the rows of the table: ranges of the percentiles over the bars."""
    return [
        TimesRow(model=each.model, requests=each.requests, first=_describe(each.first), total=_describe(each.total))
        for each in times
    ]


def _describe(values: Sequence[Percentiles | None]) -> tuple[str, str]:
    """Return the median of the bars' medians, and the highest of their 95 % values; en dashes if nothing was measured."""
    known = [value for value in values if value is not None]
    if not known:
        return "–", "–"
    medians = sorted(value.p50 for value in known)
    highest = max(value.p95 for value in known)
    return usage_chart.format_milliseconds(medians[len(medians) // 2]), usage_chart.format_milliseconds(highest)
