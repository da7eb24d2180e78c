"""Cost of the gateway by number of messages, models, keys, plugins and concurrent streams. Each series is a table."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from bench.cases import CASES_BY_NAME, SLOW_CASE, make_chat_body
from bench.load import BadAnswer
from bench.measure import measure_cost, measure_slow_streams
from bench.meter import read_memory
from bench.peers.ours import CONF
from bench.side import NotStarted, RunningSide, SideFacts, load_facts, run_side

MESSAGE_COUNTS = (1, 11, 101, 1001)
ENTRY_COUNTS = (10, 100, 1_000, 10_000)
PLUGIN_COUNTS = (0, 30, 100, 300)
STREAM_COUNTS = (10, 100, 1_000, 5_000)
START_SECONDS = 240.0
PLUGIN_SOURCE = """
from tornado_gate import errors, provider_impl

@provider_impl
def translate_request(call, request):
    raise errors.UnsupportedOperation("It is only here.")

@provider_impl
async def translate_response(call, incoming):
    for event in ():
        yield event
"""


@dataclass(frozen=True, slots=True)
class SeriesTable:
    """A table: the growing quantity, and a row of figures for each size."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def make_conf_with_models(count: int) -> str:
    """Add models; requests use the last one."""
    more = "".join(f"\n  model-{n}: {{provider: mock}}" for n in range(count - 1))
    return CONF.replace("\nmodels:", f"\nmodels:{more}")


def make_conf_with_keys(count: int) -> str:
    more = "".join(f"{{name: n{n}, key: another-key-{n:06}}}, " for n in range(count - 1))
    return CONF.replace("keys: [", f"keys: [{more}")


def make_conf_with_plugins(count: int) -> str:
    more = "".join(f", bench_{n}: true" for n in range(count))
    return CONF.replace("openai: true", f"openai: true{more}")


@contextlib.contextmanager
def plugins_on_path(count: int) -> Iterator[Mapping[str, str]]:
    """Create fake installed plugins; return the environment in which Python finds them."""
    with tempfile.TemporaryDirectory() as folder:
        for n in range(count):
            Path(folder, f"bench_{n}.py").write_text(PLUGIN_SOURCE, encoding="utf-8")
            about = Path(folder, f"bench_{n}-1.dist-info")
            about.mkdir()
            (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: bench-{n}\nVersion: 1\n", encoding="utf-8")
            (about / "entry_points.txt").write_text(f"[tornado_gate]\nbench_{n} = bench_{n}\n", encoding="utf-8")
        yield {"PYTHONPATH": folder}


def measure_messages(ours: RunningSide, seconds: float) -> SeriesTable:
    rows = []
    for count in MESSAGE_COUNTS:
        case = replace(CASES_BY_NAME["chat"], body=make_chat_body(count))
        found = measure_cost(ours, case, seconds)
        rows.append((f"{count:,}", f"{len(case.body) / 1e3:.1f}", f"{found.micros:.0f}"))
    return SeriesTable("messages of a chat", ("messages", "body, KB", "CPU µs"), tuple(rows))


def measure_conf_sizes(
    title: str, sizes: tuple[int, ...], conf: Callable[[int], str], upstream: int, seconds: float
) -> SeriesTable:
    """A series of configuration sizes: each size is measured on a new server."""
    rows = []
    for count in sizes:
        try:
            with plugins_on_path(count if conf is make_conf_with_plugins else 0) as environment:
                side: SideFacts = replace(load_facts("ours"), environment=environment, start_seconds=START_SECONDS)
                with run_side(side, upstream, files={"gate.yaml": conf(count)}) as ours:
                    figures = (
                        f"{measure_cost(ours, CASES_BY_NAME['chat'], seconds).micros:.0f}",
                        f"{ours.first_seconds:.1f}",
                    )
                    rows.append((f"{count:,}", *figures, f"{read_memory(ours.process).rss / 1e3:.0f}"))
        except (NotStarted, BadAnswer) as error:
            rows.append((f"{count:,}", f"failed: {error}", "–", "–"))
    return SeriesTable(title, (title, "CPU µs of a chat", "start, s", "RSS, MB"), tuple(rows))


def measure_streams(upstream: int) -> SeriesTable:
    """Measure each number on a new server, so that memory left free by one does not hide the use of the next."""
    rows = []
    for count in STREAM_COUNTS:
        with run_side(load_facts("ours"), upstream) as ours:
            found = measure_slow_streams(ours.port, ours.request(SLOW_CASE), ours.process, count)
        direct = measure_slow_streams(upstream, SLOW_CASE.request({}), None, count)
        complete = f"{found.complete:,} of {count:,}"
        walls = (f"{found.wall:.1f}", f"{direct.wall:.1f}")
        rows.append((f"{count:,}", complete, *walls, f"{found.rss_each:.0f}", f"{found.micros:.0f}"))
    columns = ("streams at once", "complete", "wall, s", "direct, s", "RSS KB each", "CPU µs each")
    return SeriesTable("slow streams at once", columns, tuple(rows))


def measure_message_counts(upstream: int, seconds: float) -> SeriesTable:
    with run_side(load_facts("ours"), upstream) as ours:
        return measure_messages(ours, seconds)


def measure_all_series(upstream: int, seconds: float) -> Iterator[SeriesTable]:
    """Run a series; a failure is recorded as a row, and the others continue."""
    makers: dict[str, Callable[[], SeriesTable]] = {
        "messages of a chat": lambda: measure_message_counts(upstream, seconds),
        "models in conf": lambda: measure_conf_sizes(
            "models in conf", ENTRY_COUNTS, make_conf_with_models, upstream, seconds
        ),
        "keys in conf": lambda: measure_conf_sizes(
            "keys in conf", ENTRY_COUNTS, make_conf_with_keys, upstream, seconds
        ),
        "more plugins": lambda: measure_conf_sizes(
            "more plugins", PLUGIN_COUNTS, make_conf_with_plugins, upstream, seconds
        ),
        "slow streams at once": lambda: measure_streams(upstream),
    }
    for title, made in makers.items():
        try:
            yield made()
        except (NotStarted, BadAnswer, OSError) as error:
            yield SeriesTable(title, ("failed",), ((str(error),),))
