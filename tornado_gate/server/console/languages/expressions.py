"""String constants for people in the expressions of templates.

Such a constant is a possible result of the expression, ``'works' if count == 1 else 'work'`` or ``name or 'unknown'``, or
a label of a form's field, ``form.text("name", "Name", hint="For yourself.")``.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from typing import NamedTuple

_FIELDS = frozenset({"text", "area", "select", "checks"})
_LABELS = frozenset({"hint", "placeholder", "title"})
_COUNT = "count"


class Literal(NamedTuple):
    """A string constant. `start` and `end` are its place in the UTF-8 form of the expression."""

    text: str
    start: int
    end: int


def find_literals(expression: str, *, counted: bool = False) -> list[Literal]:
    """Return the constants for people in an expression; with `counted` the nouns of ``words.count`` instead."""
    text = expression.strip()
    indent = len(expression[: len(expression) - len(expression.lstrip())].encode())
    try:
        tree = ast.parse(text, mode="eval")
    except SyntaxError:
        return []
    nodes = _walk_nouns(tree.body) if counted else [*walk_results(tree.body), *_walk_labels(tree.body)]
    lines = [0]
    for line in text.encode().split(b"\n"):
        lines.append(lines[-1] + len(line) + 1)
    literals = {
        Literal(
            node.value,
            indent + lines[node.lineno - 1] + node.col_offset,
            indent + lines[(node.end_lineno or node.lineno) - 1] + (node.end_col_offset or 0),
        )
        for node in nodes
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
    return sorted(literals, key=lambda literal: literal.start)


def replace_literals(expression: str, replace: Callable[[Literal], str]) -> str:
    """Return an expression whose constants for people have other values."""
    source = expression.encode()
    texts = [(literal, replace(literal)) for literal in find_literals(expression)]
    for literal, text in reversed(texts):
        if text != literal.text:
            source = source[: literal.start] + repr(text).encode() + source[literal.end :]
    return source.decode()


def walk_results(node: ast.expr) -> Iterator[ast.expr]:
    """Yield the nodes that may be the result of an expression."""
    match node:
        case ast.IfExp():
            yield from walk_results(node.body)
            yield from walk_results(node.orelse)
        case ast.BoolOp():
            for value in node.values:
                yield from walk_results(value)
        case ast.Subscript(value=ast.Dict() as table):
            for value in table.values:
                yield from walk_results(value)
        case ast.Call(func=ast.Attribute(attr="get", value=ast.Dict() as table)):
            for value in (*table.values, *node.args[1:]):
                yield from walk_results(value)
        case ast.Call(func=ast.Attribute(attr="get"), args=[_, default]):
            yield from walk_results(default)
        case ast.Call(func=ast.Attribute(attr="shorten"), args=[text, _]):
            yield from walk_results(text)
        case _:
            yield node


def _walk_labels(tree: ast.expr) -> Iterator[ast.expr]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _FIELDS:
            yield from node.args[1:2]
            for keyword in node.keywords:
                if keyword.arg in _LABELS:
                    yield from walk_results(keyword.value)


def _walk_nouns(tree: ast.expr) -> Iterator[ast.expr]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == _COUNT:
            yield from node.args[1:2]
