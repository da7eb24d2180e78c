"""Charts of stacked bars and of curves as values for the template `chart.html`: geometry in the units of the SVG, no markup.

The drawing is stretched to the width of the page; its texts are not.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Final

from tornado_gate.server.console.languages.catalogues import translate
from tornado_gate.types.value import Value

WIDTH: Final = 720
HEIGHT: Final = 200
MOST_LABELS: Final = 8
COLOURS: Final = ("c1", "c2", "c3", "c4", "c5", "c7", "c8")
OTHER_COLOUR: Final = "c6"
MOST_SERIES: Final = len(COLOURS)

_TOPS: Final = (1, 1.2, 1.6, 2, 2.4, 2.8, 3.2, 3.6, 4, 4.8, 6, 8)
"""The values of the highest line between 1 and 10."""

Series = tuple[str, Sequence[float]]
"""A name, and a value for each bar."""
Measurements = tuple[str, str, Sequence[float | None]]
"""A name, a colour, and a value for each time; None where nothing was measured."""


class Segment(Value, frozen=True):
    """A part of a bar. `title` describes it in words."""

    x: float
    y: float
    width: float
    height: float
    colour: str
    title: str


class Curve(Value, frozen=True):
    """A line through the values of consecutive times. `points` are its corners, as an SVG has them."""

    points: str
    colour: str
    title: str
    is_dashed: bool


class Mark(Value, frozen=True):
    """A label of an axis: `place` is in units of the drawing for a line, and in percent of the width for a time."""

    place: float
    text: str


class Chart(Value, frozen=True, kw_only=True):
    """A drawing of `width` and `height`. `name` makes the ids of its parts unique on the page.

    `day` is the UTC day of the first bar if bars are hours, which `console.js` then shows in the browser's zone; else "".
    """

    name: str = "chart"
    width: int = WIDTH
    height: int = HEIGHT
    title: str
    summary: str
    day: str = ""
    segments: tuple[Segment, ...] = ()
    curves: tuple[Curve, ...] = ()
    lines: tuple[Mark, ...]
    labels: tuple[Mark, ...]
    legend: tuple[tuple[str, str], ...]


class _Scale(Value, frozen=True):
    """The conversion of values to coordinates. `step` is the distance of two bars, `top` the value of the highest line."""

    step: float
    top: float
    format_value: Callable[[float], str]

    def find_y(self, value: float) -> float:
        return round(HEIGHT - value / self.top * HEIGHT, 1)

    def mark_lines(self) -> tuple[Mark, ...]:
        """Return five lines, from zero to the top."""
        values = [part * self.top / 4 for part in range(5)]
        return tuple(Mark(self.find_y(value), self.format_value(value)) for value in values)


def choose_colours(
    names: Sequence[str], order: Sequence[str] = (), known: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Return a colour for each name, which depends on the name and not on its rank: equal names look equal in all charts.

    Names in `order` have the colours in turn. Two names of one chart share a colour only if there are too many. `known` are
    the colours of another chart of the page, which stay.
    """
    places = {name: place for place, name in enumerate(order)}
    chosen = {name: known[name] for name in names if name in known} if known else {}
    rest = (name for name in names if name not in chosen)
    for name in sorted(rest, key=lambda name: (places.get(name, len(places)), name)):
        start = places.get(name, zlib.crc32(name.encode("utf-8", "replace")))
        turn = [COLOURS[(start + step) % MOST_SERIES] for step in range(MOST_SERIES)]
        chosen[name] = next((colour for colour in turn if colour not in chosen.values()), turn[0])
    return chosen


def draw_chart(
    series: Sequence[Series],
    *,
    start: int,
    bar_seconds: int,
    title: str,
    summary: str,
    format_value: Callable[[float], str],
    least: float = 4.0,
    colours: Sequence[str] = (),
) -> Chart:
    """Return a chart of stacked bars: at most MOST_SERIES series, and one more for all others.

    `start` is the time of the first bar, `least` the smallest value of the highest line. `colours` are of the series.
    """
    count = len(series[0][1]) if series else 1
    colours = colours or (*COLOURS, OTHER_COLOUR)[: len(series)]
    names = [format_bar(start + index * bar_seconds, bar_seconds) for index in range(count)]
    highest = max((sum(values[index] for _, values in series) for index in range(count)), default=0.0)
    top = max(round_up(highest), least)
    if least >= 4:  # whole numbers have no lines between them
        top = 4 * math.ceil(top / 4)
    scale = _Scale(WIDTH / count, top, format_value)
    return Chart(
        title=title,
        summary=summary,
        day=find_day(start, bar_seconds),
        segments=tuple(
            segment
            for index in range(count)
            for segment in _stack_segments(series, colours, (index, names[index]), scale)
        ),
        lines=scale.mark_lines(),
        labels=_label_times(names),
        legend=tuple((name, colour) for (name, _), colour in zip(series, colours, strict=True)),
    )


def draw_curves(
    name: str,
    pairs: Sequence[tuple[Measurements, Measurements]],
    *,
    start: int,
    bar_seconds: int,
    title: str,
    summary: str,
) -> Chart:
    """Return a chart of milliseconds: for each pair a whole line, the median, and a dashed line above it.

    Lines have gaps where nothing was measured; a single value is a short line.
    """
    count = len(pairs[0][0][2]) if pairs else 1
    values = [value for pair in pairs for _, _, curve in pair for value in curve if value is not None]
    scale = _Scale(WIDTH / count, max(round_up(max(values, default=0.0)), 4.0), format_milliseconds)
    names = [format_bar(start + index * bar_seconds, bar_seconds) for index in range(count)]
    return Chart(
        name=name,
        title=title,
        summary=summary,
        day=find_day(start, bar_seconds),
        curves=tuple(
            curve
            for pair in pairs
            for is_dashed, measured in enumerate(pair)
            for curve in _draw_parts(measured, scale, is_dashed=bool(is_dashed))
        ),
        lines=scale.mark_lines(),
        labels=_label_times(names),
        legend=tuple((median[0], median[1]) for median, _ in pairs),
    )


def _draw_parts(measured: Measurements, scale: _Scale, *, is_dashed: bool) -> list[Curve]:
    name, colour, values = measured
    curves, points = [], []
    for index, value in enumerate((*values, None)):
        if value is not None:
            points.append(((index + 0.5) * scale.step, scale.find_y(value)))
        elif points:
            if len(points) == 1:  # a line needs a length to be seen
                x, y = points[0]
                points = [(x - scale.step * 0.3, y), (x + scale.step * 0.3, y)]
            text = " ".join(f"{x:.1f},{y:g}" for x, y in points)
            kind = translate("95% are faster" if is_dashed else "median")
            curves.append(Curve(text, colour, f"{name}, {kind}", is_dashed))
            points = []
    return curves


def _label_times(names: Sequence[str]) -> tuple[Mark, ...]:
    every = -(-len(names) // MOST_LABELS)
    return tuple(
        Mark(round((index + 0.5) / len(names) * 100, 2), names[index]) for index in range(0, len(names), every)
    )


def _stack_segments(
    series: Sequence[Series], colours: Sequence[str], bar: tuple[int, str], scale: _Scale
) -> list[Segment]:
    """Return the parts of one bar, from the axis upwards. `bar`: its place and its name."""
    segments = []
    below = 0.0
    gap = scale.step * 0.15
    index, label = bar
    x, width = round(index * scale.step + gap / 2, 1), round(scale.step - gap, 1)
    for (name, values), colour in zip(series, colours, strict=True):
        value = values[index]
        if value > 0:
            y = scale.find_y(below + value)
            height = round(max(scale.find_y(below) - y, 0.5), 1)
            segments.append(Segment(x, y, width, height, colour, f"{label}: {name}, {scale.format_value(value)}"))
            below += value
    return segments


def round_up(value: float) -> float:
    """Return the next number that four lines divide into short numbers: 12, 16, 20, 24, …; 0 for 0."""
    if value <= 0:
        return 0.0
    unit = 10.0 ** math.floor(math.log10(value))
    return next((round(factor * unit, 9) for factor in _TOPS if factor * unit >= value), 10 * unit)


def format_bar(moment: float, bar_seconds: int) -> str:
    """Return the label of a bar: ``13:00`` or ``Nov 22``, in UTC."""
    time = datetime.fromtimestamp(moment, UTC)
    return time.strftime("%H:%M") if bar_seconds < 86400 else f"{time:%b} {time.day}"


def find_day(moment: float, bar_seconds: int) -> str:
    """Return the UTC day of the first bar, ``2026-11-28``; "" if bars are days."""
    return datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%d") if bar_seconds < 86400 else ""


def format_milliseconds(value: float) -> str:
    """Return a time for an axis: ``250 ms``, ``1.5 s``."""
    return f"{value:.3g} ms" if value < 1000 else f"{value / 1000:.3g} s"


def format_short(value: float) -> str:
    """Return a count for an axis: ``950``, ``1.2 k``, ``3 M``."""
    for size, unit in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:.4g} {unit}"
    return f"{value:.4g}"
