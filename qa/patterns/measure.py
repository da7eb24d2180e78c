"""The time of a pattern on its worst texts, by the methods that the code calls."""

from __future__ import annotations

import re
import time
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from qa.patterns.attacks import Attack, list_attacks
from qa.patterns.collect import METHODS, Found

LENGTH = 64 * 1024
STEPS = ((160, 30), (1024, 8), (8 * 1024, 2))
"""Characters, and how many of the slowest attacks of that size are tried with the next one."""
LIMIT_SECONDS = 0.05
"""For a text of `LENGTH`: more than any linear pattern takes on a slow machine, less than any quadratic one."""


class Worst(NamedTuple):
    """The slowest text of a pattern."""

    name: str
    pattern: str
    methods: tuple[str, ...]
    seconds: float
    length: int
    text: str


def measure(found: Found, methods: Iterable[str], length: int, more: Iterable[str] = ()) -> Worst:
    """The slowest attack with `length` characters; with fewer if these take too long already."""
    chosen = tuple(sorted(methods)) or METHODS
    runs = [_choose_run(found.pattern, method) for method in _leave_equal_ones_out(chosen)]
    is_bytes = isinstance(found.pattern.pattern, bytes)
    attacks = [*list_attacks(found.pattern), *(Attack("", text, "") for text in more)]

    def time_attack(attack: Attack, size: int, repeats: int) -> float:
        text = attack.build(size)
        return _time(runs, text.encode("utf-8", "surrogatepass") if is_bytes else text, repeats)

    reached = length
    for size, count in STEPS:
        if size >= length:
            continue
        times = sorted(((time_attack(attack, size, 1), attack) for attack in attacks), reverse=True)
        attacks = [attack for _, attack in times[:count]]
        if times[0][0] > LIMIT_SECONDS and time_attack(attacks[0], size, 2) > LIMIT_SECONDS:
            attacks, reached = attacks[:1], size
            break
    seconds, attack = max((time_attack(attack, reached, 3), attack) for attack in attacks)
    return Worst(
        found.name,
        repr(found.pattern.pattern),
        chosen,
        seconds,
        reached,
        f"{attack.head!r} {attack.unit!r} {attack.tail!r}",
    )


def _leave_equal_ones_out(methods: Iterable[str]) -> list[str]:
    """`finditer`, `findall`, `sub` and `split` go through a text in the same way."""
    through = {"finditer", "findall", "sub", "subn", "split"}
    kept = [method for method in methods if method not in through]
    return [*kept, *(["finditer"] if through & set(methods) else [])]


def _choose_run(pattern: re.Pattern[Any], method: str) -> Callable[[Any], object]:
    if method == "finditer":
        return lambda text: deque(pattern.finditer(text), 0)
    chosen: Callable[[Any], object] = getattr(pattern, method)
    return chosen


def _time(runs: Iterable[Callable[[Any], object]], text: Any, repeats: int) -> float:
    """The slowest of the methods; of each, the fastest of several runs."""
    return max(min(_time_once(run, text, index) for index in range(repeats)) for run in runs)


def _time_once(run: Callable[[Any], object], text: Any, index: int) -> float:
    started = time.thread_time()
    run(text)
    return time.thread_time() - started
