"""Generate the pages `docs/reference/matrix.md` and `docs/reference/matrix-media.md` from the results of the walk."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Final

from qa.matrix import plugin_support
from qa.matrix.fields import Field, Group
from qa.matrix.media import MEDIA_WAYS
from qa.matrix.walk import MISNAMED, SILENT, outcomes
from qa.matrix.ways import WAYS, Upstream, Way

DOCS: Final = Path(__file__).parents[2] / "docs"

HEAD: Final = """\
# Which field reaches which upstream

Made by the tests: `python -m qa.matrix` writes this page, and a test fails when the gateway does something else. Every
field of the vendors' own SDKs is sent through the gateway to every provider, and the upstream's request is compared.
No field is dropped silently: a field that an upstream cannot honour is in the header `x-gate-loss`, and with
`x-gate-strict: 1` such a request is a 400 that names it.

Chat and its like are here; embeddings, moderation, pictures, speech and transcripts are in [matrix-media.md](matrix-media.md).

| word | result for the field |
|---|---|
| verbatim | it goes up as it came: the upstream speaks the caller's wire format |
| translated | it goes up in the upstream's own words |
| partly | values that the upstream has words for go up; others are reported |
| reported | the upstream has no word for it: its name is in `x-gate-loss` |
| refused | the response is a 400, or a 404 for an object, which names the field |
| anyway | the result is the same without it |
| answer only | it changes the response, which the gateway renders |
| issuer only | only the upstream that issued the value can read it; the others do not get it |
| honoured | the embedded provider's answer depends on it |
| counted | the embedded provider reads it as input tokens; its answer does not depend on it |
| no effect | the embedded provider's README lists it as accepted without effect |
"""


MEDIA_HEAD: Final = """\
# Which field reaches which upstream: beyond chat

The other half of [matrix.md](matrix.md), which explains the words: embeddings, moderation, pictures, speech and
transcripts. Made by the same tests in the same way. `field_of_tomorrow` stands for any field that a vendor may add. Media
that the embedded provider would compute for long are not made; the calls of its makers are compared.

A request for pictures goes up as it came when its caller is to get what the upstream gives, which is bytes inside the answer,
and is translated when the gateway hands out addresses: "either" below.
"""


def pages() -> dict[Path, str]:
    """The text of every page, by its file."""
    return {
        DOCS / "reference" / "matrix.md": _page(HEAD, WAYS, _columns(WAYS)),
        DOCS / "reference" / "matrix-media.md": _page(MEDIA_HEAD, MEDIA_WAYS, _models(MEDIA_WAYS)),
        DOCS / "plugins" / "plugin-support.md": plugin_support.make_page(),
    }


def _page(head: str, ways: Sequence[Way], columns: Iterable[str]) -> str:
    return "\n".join([head, *_lanes(ways), *columns, *(line for way in ways for line in _way(way))]).rstrip() + "\n"


def _lanes(ways: Sequence[Way]) -> Iterator[str]:
    names = _names(ways)
    yield "## Ways in, and upstreams"
    yield ""
    yield from _header("way in", names)
    for way in ways:
        lanes = {upstream.name: _lane(way, upstream) for upstream in way.upstreams}
        yield _line(way.heading, (lanes.get(name, "not served") for name in names))
    yield ""


def _names(ways: Sequence[Way]) -> list[str]:
    """The names of all upstreams that have a column, the embedded provider last."""
    names = dict.fromkeys(upstream.name for way in ways for upstream in way.upstreams)
    return sorted(names, key=lambda name: name == "local")


def _columns(ways: Sequence[Way]) -> Iterator[str]:
    """The list of columns, for ways that all have the same upstreams."""
    yield "The columns are provider entries of conf:"
    yield ""
    for upstream in ways[0].upstreams:
        yield f"- **{upstream.name}**: {_entry(upstream)}"
    yield ""


def _models(ways: Sequence[Way]) -> Iterator[str]:
    """The list of columns, for ways that have upstreams of their own."""
    yield "The columns are models at provider entries of conf, of the plugin of the same name unless another is named:"
    yield ""
    named: dict[str, list[Upstream]] = {}
    for way in ways:
        for upstream in way.upstreams:
            named.setdefault(upstream.name, []).append(upstream)
    for name in _names(ways):
        upstreams = named[name]
        models = dict.fromkeys(f"`{upstream.model}`" for upstream in upstreams)
        plugin = "" if upstreams[0].plugin == name else f"the plugin `{upstreams[0].plugin}`; "
        yield f"- **{name}**: {plugin}{', '.join(models)}"
    yield ""


def _entry(upstream: Upstream) -> str:
    settings = ", ".join(f"`{name}: {value}`" for name, value in upstream.settings.items())
    model = f"the model `{upstream.model}`"
    if upstream.base_url:
        return f"the plugin `{upstream.plugin}` with an address of one's own, as for vLLM or Ollama; {model}"
    return f"the plugin `{upstream.plugin}`{' with ' + settings if settings else ''}; {model}"


def _lane(way: Way, upstream: Upstream) -> str:
    seen = outcomes(way, upstream).values()
    if any(outcome.word == "not served" for outcome in seen):
        return "not served"
    forwarded = {outcome.forwarded for outcome in seen if outcome.word != "refused"}
    return "either" if len(forwarded) > 1 else "verbatim" if True in forwarded else "translated"


def _way(way: Way) -> Iterator[str]:
    yield f"## {way.heading}"
    yield ""
    yield from _header("field", [upstream.name for upstream in way.upstreams])
    for group in way.groups:
        yield _line(f"**{group.title}**", [""] * len(way.upstreams))
        yield from _rows(way, group)
    yield ""
    yield from _reasons(way)


def _rows(way: Way, group: Group) -> Iterator[str]:
    """Rows of one place with the same results become one line."""

    def fate(row: Field) -> tuple[str, tuple[str, ...]]:
        return row.place, _words(way, row)

    for (place, words), rows in groupby(group.fields, fate):
        kinds = "; ".join(row.kind for row in rows if row.kind)
        yield _line(f"`{place}`: {kinds}" if kinds else f"`{place}`", words)


def _words(way: Way, row: Field) -> tuple[str, ...]:
    words = [outcomes(way, upstream)[row].word for upstream in way.upstreams]
    return tuple(f"**{word.lower()}**" if word in (SILENT, MISNAMED) else word for word in words)


def _reasons(way: Way) -> Iterator[str]:
    """The reasons why some fields may leave the outgoing request unchanged."""
    told: dict[str, list[str]] = {}
    for group in way.groups:
        for row in group.fields:
            if row.idle is not None and row.idle.kind in _words(way, row):
                told.setdefault(f"{row.idle.kind}: {row.idle.reason}", []).append(f"`{row.place}`")
    for reason, places in told.items():
        yield f"- {', '.join(dict.fromkeys(places))}, {reason}."
    if told:
        yield ""


def _header(first: str, names: Sequence[str]) -> Iterator[str]:
    yield _line(first, names)
    yield "|---" * (len(names) + 1) + "|"


def _line(first: str, cells: Iterable[str]) -> str:
    return f"| {' | '.join([first, *cells])} |"
