"""The page `docs/matrix.md`, made of what the walk has seen."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby
from pathlib import Path
from typing import Final

from tests.matrix.fields import Field, Group
from tests.matrix.walk import MISNAMED, SILENT, Walk, outcomes
from tests.matrix.ways import UPSTREAMS, WAYS, Upstream, Way

PAGE: Final = Path(__file__).parents[2] / "docs" / "matrix.md"

HEAD: Final = """\
# Which field reaches which upstream

Made by the tests: `python -m tests.matrix` writes this page, and a test fails when it is not what the gateway does. Every
field that the vendors' own SDKs know is pushed through the gateway to every provider, and what would be sent is looked at.
No field may vanish in silence: what an upstream cannot honour comes back in the header `x-gate-loss`, and with
`x-gate-strict: 1` such a request is a 400 that names it.

| word | what becomes of the field |
|---|---|
| verbatim | it goes up as it came: the upstream speaks the caller's wire format |
| translated | it goes up in the upstream's own words |
| partly | what the upstream has words for goes up; the rest is reported |
| reported | the upstream has no word for it: its name is in `x-gate-loss` |
| refused | the request is answered with a 400, or a 404 for what it refers to, which names the field |
| anyway | it asks for what happens without it too |
| answer only | it shapes the answer, which is the gateway's own work |
| issuer only | only the upstream that issued the value can read it; the others do not get it |
| honoured | the embedded provider's answer depends on it |
| counted | the embedded provider reads it as input tokens; its answer does not depend on it |
| no effect | the embedded provider's README lists it as accepted without effect |
"""


def page() -> str:
    """The whole page."""
    return "\n".join([HEAD, *_lanes(), *(line for way in WAYS for line in _way(way))]).rstrip() + "\n"


def _lanes() -> Iterator[str]:
    yield "## Ways in, and upstreams"
    yield ""
    yield from _header("way in")
    for way in WAYS:
        yield _line(f"`{way.title}`", (_lane(way, upstream) for upstream in UPSTREAMS))
    yield ""
    yield "The columns are provider entries of conf:"
    yield ""
    for upstream in UPSTREAMS:
        yield f"- **{upstream.name}**: {_entry(upstream)}"
    yield ""


def _entry(upstream: Upstream) -> str:
    settings = ", ".join(f"`{name}: {value}`" for name, value in upstream.settings.items())
    model = f"the model `{upstream.model}`"
    if upstream.base_url:
        return f"the plugin `{upstream.plugin}` with an address of one's own, as for vLLM or Ollama; {model}"
    return f"the plugin `{upstream.plugin}`{' with ' + settings if settings else ''}; {model}"


def _lane(way: Way, upstream: Upstream) -> str:
    walk = Walk(way, upstream)
    if not walk.served:
        return "not served"
    return "verbatim" if walk.verbatim else "translated"


def _way(way: Way) -> Iterator[str]:
    yield f"## `{way.title}`"
    yield ""
    yield from _header("field")
    for group in way.groups:
        yield _line(f"**{group.title}**", [""] * len(UPSTREAMS))
        yield from _rows(way, group)
    yield ""
    yield from _reasons(way)


def _rows(way: Way, group: Group) -> Iterator[str]:
    """Rows of one place that fare the same are one line."""

    def fate(row: Field) -> tuple[str, tuple[str, ...]]:
        return row.place, _words(way, row)

    for (place, words), rows in groupby(group.fields, fate):
        kinds = "; ".join(row.kind for row in rows if row.kind)
        yield _line(f"`{place}`: {kinds}" if kinds else f"`{place}`", words)


def _words(way: Way, row: Field) -> tuple[str, ...]:
    words = [outcomes(way, upstream)[row].word for upstream in UPSTREAMS]
    return tuple(f"**{word.lower()}**" if word in (SILENT, MISNAMED) else word for word in words)


def _reasons(way: Way) -> Iterator[str]:
    """Why some fields may leave the outgoing request as it is."""
    told: dict[str, list[str]] = {}
    for group in way.groups:
        for row in group.fields:
            if row.idle is not None and row.idle.kind in _words(way, row):
                told.setdefault(f"{row.idle.kind}: {row.idle.reason}", []).append(f"`{row.place}`")
    for reason, places in told.items():
        yield f"- {', '.join(dict.fromkeys(places))}, {reason}."
    if told:
        yield ""


def _header(first: str) -> Iterator[str]:
    yield _line(first, (upstream.name for upstream in UPSTREAMS))
    yield "|---" * (len(UPSTREAMS) + 1) + "|"


def _line(first: str, cells: Iterable[str]) -> str:
    return f"| {' | '.join([first, *cells])} |"
