"""A chart of stacked bars as values for the template `chart.html`: geometry in the units of the SVG, no markup."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Final

from tornado_gate.types.value import Value

WIDTH: Final = 760
HEIGHT: Final = 260
LEFT: Final = 58
RIGHT: Final = 8
TOP: Final = 12
BOTTOM: Final = 26
MOST_LABELS: Final = 8
COLOURS: Final = ("c1", "c2", "c3", "c4", "c5", "c7", "c8")
OTHER_COLOUR: Final = "c6"
MOST_SERIES: Final = len(COLOURS)

_TOPS: Final = (1, 1.2, 1.6, 2, 2.4, 2.8, 3.2, 3.6, 4, 4.8, 6, 8)
"""The values of the highest line between 1 and 10."""

Series = tuple[str, Sequence[float]]
"""A name, and a value for each bar."""


class Segment(Value, frozen=True):
    """A part of a bar. `title` describes it in words."""

    x: float
    y: float
    width: float
    height: float
    colour: str
    title: str


class Mark(Value, frozen=True):
    """A label of an axis at `place`."""

    place: float
    text: str


class Chart(Value, frozen=True, kw_only=True):
    width: int = WIDTH
    height: int = HEIGHT
    left: int = LEFT
    base: int = HEIGHT - BOTTOM
    title: str
    summary: str
    segments: tuple[Segment, ...]
    lines: tuple[Mark, ...]
    labels: tuple[Mark, ...]
    legend: tuple[tuple[str, str], ...]


class _Scale(Value, frozen=True):
    """The conversion of values to coordinates. `step` is the distance of two bars, `top` the value of the highest line."""

    step: float
    top: float
    format_value: Callable[[float], str]

    def find_y(self, value: float) -> float:
        return round(HEIGHT - BOTTOM - value / self.top * (HEIGHT - BOTTOM - TOP), 1)


def draw_chart(
    series: Sequence[Series],
    *,
    start: int,
    bar_seconds: int,
    title: str,
    summary: str,
    format_value: Callable[[float], str],
    least: float = 4.0,
) -> Chart:
    """Return a chart of at most MOST_SERIES series, and one more for all others.

    `start` is the time of the first bar, `least` the smallest value of the highest line.
    """
    count = len(series[0][1]) if series else 1
    names = [format_bar(start + index * bar_seconds, bar_seconds) for index in range(count)]
    highest = max((sum(values[index] for _, values in series) for index in range(count)), default=0.0)
    top = max(round_up(highest), least)
    if least >= 4:  # whole numbers have no lines between them
        top = 4 * math.ceil(top / 4)
    scale = _Scale((WIDTH - LEFT - RIGHT) / count, top, format_value)
    every = -(-count // MOST_LABELS)
    parts = [part * scale.top / 4 for part in range(5)]
    return Chart(
        title=title,
        summary=summary,
        segments=tuple(
            segment for index in range(count) for segment in _stack_segments(series, index, names[index], scale)
        ),
        lines=tuple(Mark(scale.find_y(value), format_value(value)) for value in parts),
        labels=tuple(
            Mark(round(LEFT + (index + 0.5) * scale.step, 1), names[index]) for index in range(0, count, every)
        ),
        legend=tuple((name, _choose_colour(index)) for index, (name, _) in enumerate(series)),
    )


def _stack_segments(series: Sequence[Series], index: int, bar: str, scale: _Scale) -> list[Segment]:
    """Return the parts of one bar, from the axis upwards."""
    segments = []
    below = 0.0
    gap = min(4.0, scale.step * 0.2)
    x, width = round(LEFT + index * scale.step + gap / 2, 1), round(scale.step - gap, 1)
    for number, (name, values) in enumerate(series):
        value = values[index]
        if value > 0:
            y = scale.find_y(below + value)
            height = round(max(scale.find_y(below) - y, 0.5), 1)
            title = f"{bar}: {name}, {scale.format_value(value)}"
            segments.append(Segment(x, y, width, height, _choose_colour(number), title))
            below += value
    return segments


def _choose_colour(number: int) -> str:
    return COLOURS[number] if number < MOST_SERIES else OTHER_COLOUR


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


def format_short(value: float) -> str:
    """Return a count for an axis: ``950``, ``1.2 k``, ``3 M``."""
    for size, unit in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:.4g} {unit}"
    return f"{value:.4g}"
