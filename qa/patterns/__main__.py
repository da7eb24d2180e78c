"""Prints every regular expression with its worst time as a table in Markdown, the slowest first. `--json`: for the test.

`python -m qa.patterns [--json] [PART-OF-A-NAME…]`, for patterns whose name contains one of the parts.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence

from qa.patterns.collect import Found, collect


def main(arguments: Sequence[str]) -> None:
    """Measure the patterns. They are collected first, before anything else imports their modules."""
    patterns, in_functions = collect()
    from qa.patterns import exceptions  # it imports modules of the gateway

    parts = [word for word in arguments if not word.startswith("--")]
    known = list(_complete(patterns))
    chosen = [found for found in known if not parts or any(part in found.name for part in parts)]
    rows = sorted(map(_measure, chosen), key=lambda row: (row["length"] >= row["bound"], -row["milliseconds"]))
    if "--json" in arguments:
        tables = (exceptions.BOUNDED, exceptions.TRUSTED, exceptions.METHODS, exceptions.COMPILED, exceptions.TEXTS)
        named = [name for table in tables for name in table]
        names = [found.name for found in known]
        print(json.dumps({"rows": rows, "names": names, "in_functions": in_functions, "named": named}))
        return
    print(f"{len(rows)} patterns\n\n| pattern | methods | worst text | characters | ms |\n|---|---|---|---|---|")
    for row in rows:
        text = row["text"].replace("|", "\\|")
        print(
            f"| `{row['name']}` | {', '.join(row['methods'])} | `{text}` | {row['length']} | {row['milliseconds']:.2f} |"
        )


def _complete(patterns: Sequence[Found]) -> Iterator[Found]:
    """The patterns with the methods of the table, and those that functions compile."""
    from qa.patterns.exceptions import COMPILED, METHODS

    for found in patterns:
        method = METHODS.get(found.name)
        yield found if method is None else found._replace(methods=frozenset({method}))
    for name, (method, compile_examples) in COMPILED.items():
        for pattern in compile_examples():
            yield Found(name, pattern, frozenset({method}))


def _measure(found: Found) -> dict[str, object]:
    from qa.patterns.exceptions import BOUNDED, TEXTS, TRUSTED
    from qa.patterns.measure import LENGTH, measure

    bound = 0 if found.name in TRUSTED else BOUNDED.get(found.name, (LENGTH, ""))[0]
    worst = measure(found, found.methods, bound or 64, TEXTS.get(found.name, ()))
    return {
        "name": found.name, "methods": worst.methods, "bound": bound, "length": worst.length, "text": worst.text,
        "pattern": worst.pattern, "milliseconds": round(worst.seconds * 1000, 3),
    }  # fmt: skip


if __name__ == "__main__":
    main(sys.argv[1:])
