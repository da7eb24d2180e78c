"""Times, numbers and browsers in words of the page's language, for templates. Times are Unix seconds and are shown in UTC.

`render_time` and `render_age` return markup, whose times `console.js` shows in the browser's zone.
"""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from decimal import Decimal

from tornado_gate.ledger.rows import NANO_DOLLARS, UsageRow
from tornado_gate.server.console.languages.catalogues import mark, translate

_UNITS = ((86400, mark("day", "count")), (3600, mark("hour", "count")), (60, mark("minute", "count")))
_BROWSERS = (
    ("Edge", re.compile(r"Edg(?:e|A|iOS)?/(\d+)")),
    ("Opera", re.compile(r"OPR/(\d+)")),
    ("Samsung Internet", re.compile(r"SamsungBrowser/(\d+)")),
    ("Firefox", re.compile(r"(?:Firefox|FxiOS)/(\d+)")),
    ("Chrome", re.compile(r"(?:Chrome|CriOS|Chromium)/(\d+)")),
    ("Safari", re.compile(r"Version/(\d++)[\d.]*+ (?:Mobile/\S++ )?Safari/")),
)
_SYSTEMS = (
    ("Windows", "Windows"),
    ("iPhone", "iPhone"),
    ("iPad", "iPad"),
    ("Android", "Android"),
    ("Mac OS X", "macOS"),
    ("CrOS", "ChromeOS"),
    ("Linux", "Linux"),
)


def format_time(moment: float | None, *, seconds: bool = False) -> str:
    """Return ``2026-11-22 20:37 UTC``, or with `seconds` ``2026-11-22 20:37:05 UTC``; an en dash for None."""
    if moment is None:
        return "–"
    try:
        return datetime.fromtimestamp(moment, UTC).strftime(f"%Y-%m-%d %H:%M{':%S' if seconds else ''} UTC")
    except (ValueError, OverflowError, OSError):
        return translate("far future")


def format_iso(moment: float) -> str:
    """Return a time for machines, in the attribute ``datetime``."""
    return format_time(moment, seconds=True).removesuffix(" UTC").replace(" ", "T") + "Z"


def render_time(moment: float | None, *, seconds: bool = False) -> str:
    """Return a time as markup; an en dash for None."""
    if moment is None:
        return format_time(None)
    mark = " data-seconds" if seconds else ""
    return f'<time datetime="{format_iso(moment)}"{mark}>{format_time(moment, seconds=seconds)}</time>'


def render_age(moment: float | None, now: float | None = None) -> str:
    """Return the distance of a time as markup, with the time as its title; ``never`` for None."""
    age = format_age(moment, now)
    if moment is None:
        return age
    return f'<time datetime="{format_iso(moment)}" title="{format_time(moment)}">{age}</time>'


def shorten(text: str, longest: int) -> str:
    return text if len(text) <= longest else text[: longest - 1] + "…"


def join(words: Sequence[str], most: int) -> str:
    """Return ``chat, images and 3 more``; at most `most` words are named."""
    listed = ", ".join(shorten(word, 40) for word in words[:most])
    if len(words) <= most:
        return listed
    return translate("{words} and {number} more").format(words=listed, number=len(words) - most)


def format_age(moment: float | None, now: float | None = None) -> str:
    """Return ``5 minutes ago``, ``in 3 days``, ``never`` for None."""
    if moment is None:
        return translate("never")
    distance = moment - (time.time() if now is None else now)
    for seconds, unit in _UNITS:
        whole = int(abs(distance) // seconds)
        if whole:
            text = count(whole, unit)
            return translate("in {time}" if distance > 0 else "{time} ago").format(time=text)
    return translate("in less than a minute" if distance > 0 else "just now")


def format_duration(seconds: float) -> str:
    """Return ``8 s``, ``3 min 5 s``, ``2 h 10 min``."""
    whole = max(0, round(seconds))
    hours, minutes, rest = whole // 3600, whole % 3600 // 60, whole % 60
    if hours:
        return translate("{hours} h {minutes} min").format(hours=hours, minutes=minutes)
    if minutes:
        return translate("{minutes} min {seconds} s").format(minutes=minutes, seconds=rest)
    return translate("{seconds} s").format(seconds=rest)


def format_wait(seconds: float) -> str:
    """Return a wait in words, rounded up: ``30 seconds``, ``5 minutes``."""
    whole = max(1, -int(-seconds // 1))
    return count(whole, "second") if whole < 120 else count(-(-whole // 60), "minute")


def format_usd(amount: float | None) -> str:
    """Return US dollars with a useful number of digits; ``unknown`` for None."""
    if amount is None:
        return translate("unknown")
    if amount == 0 or abs(amount) >= 1:
        return f"${amount:,.2f}"
    if abs(amount) < 0.0001:
        return "$" + format(Decimal(f"{amount:.2g}"), "f")  # fixed-point: an exponent is hard to compare
    text = f"${amount:.4f}"
    return text[:-2] if text.endswith("00") else text


def format_cost(row: UsageRow) -> str:
    """Return the known cost of a group, and the number of its requests without a price: ``$0.3460 + 2 unpriced``."""
    if not row.unpriced_requests:
        return format_usd(row.cost / NANO_DOLLARS)
    known = f"{format_usd(row.cost / NANO_DOLLARS)} + " if row.cost else ""
    return known + translate("{number} unpriced").format(number=f"{row.unpriced_requests:,}")


def count(number: int, noun: str) -> str:
    """Return ``1 request``, ``1,200 requests``. A translated noun has one form for all numbers."""
    counted = translate(noun, "count")
    plural = "s" if counted == noun and number != 1 else ""
    return f"{number:,} {counted}{plural}"


def format_bytes(size: int) -> str:
    """Return ``950 B``, ``12 kB``, ``2.5 MB``."""
    if size < 1000:
        return f"{size} B"
    amount = size / 1000
    for unit in ("kB", "MB"):
        if amount < 1000:
            return f"{amount:.1f} {unit}" if amount < 10 else f"{amount:.0f} {unit}"
        amount /= 1000
    return f"{amount:.1f} GB"


def describe_browser(agent: str) -> str:
    """Return a User-Agent header in words: ``Firefox 140 on Windows``. Another program keeps its own name."""
    browser = next(
        (f"{name} {match[1]}" for name, pattern in _BROWSERS if (match := pattern.search(agent)) is not None), ""
    )
    system = next((name for mark, name in _SYSTEMS if mark in agent), "")
    if not browser:
        return agent[:60] or translate("Unknown browser")
    return translate("{browser} on {system}").format(browser=browser, system=system) if system else browser
