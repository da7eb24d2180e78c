"""Docstrings as Markdown."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable

_LABELLED = re.compile(r"^(When|Where|Coroutine|Raises): ", re.M)


def to_markdown(text: str) -> str:
    """The text of a docstring with code in single backticks, and with each paragraph on one line."""
    paragraphs = re.split(r"\n\s*\n", inspect.cleandoc(text).replace("``", "`"))
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)


def split_labels(text: str) -> tuple[str, dict[str, str]]:
    """The prose of a hook's docstring, and its labelled lines at the end (``When: …``)."""
    text = inspect.cleandoc(text)
    first = _LABELLED.search(text)
    if first is None:
        return to_markdown(text), {}
    pieces = _LABELLED.split(text[first.start() :])
    labels = {label: to_markdown(value) for label, value in zip(pieces[1::2], pieces[2::2], strict=True)}
    return to_markdown(text[: first.start()]), labels


def explain_names(text: str, names: Iterable[str]) -> tuple[dict[str, str], str]:
    """What a docstring says about each of `names`, which it has in backticks, and the sentences that are about none of them.

    A sentence is about the names in it. What follows a semicolon is about names of its own if it begins with one, and otherwise
    continues what stands before it.
    """
    wanted = set(names)
    found: dict[str, list[str]] = {}
    shared: set[str] = set()
    others: list[str] = []
    for sentence in re.split(r"(?<=[.])\s+(?=\S)", to_markdown(text).replace("\n\n", " ")):
        subjects: list[str] = []
        for clause in re.split(r"(?<=;)\s+(?=\S)", sentence):
            named = [name for name in dict.fromkeys(re.findall(r"`(\w+)`", clause)) if name in wanted]
            if named and (not subjects or clause.startswith("`")):
                subjects = named
                shared |= set(named) if len(named) > 1 else set()
            if not subjects:
                others.append(clause)
            for name in subjects:
                found.setdefault(name, []).append(clause)
    return {
        name: _tidy("" if name in shared else name, " ".join(clauses)) for name, clauses in found.items()
    }, " ".join(others)


def _tidy(name: str, text: str) -> str:
    """`text` without the name at its start."""
    text = re.sub(rf"^`{name}`(: | is | are )", "", text) if name else text
    text = text.rstrip(";").rstrip(".") + "."
    return text[0].upper() + text[1:] if text.split()[0].isalpha() else text


def make_table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    """A Markdown table."""
    lines = [head, ("---",) * len(head), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)
