"""Regular expressions of a schema's `pattern`: does a text match, and what would match.

Not Python's `re`, because callers write these patterns and a hostile one keeps a backtracking engine busy for years,
on the event loop. This one follows all positions at once, so its work grows with pattern times text, and it counts its
steps. Knows literals, classes, groups, ``|``, ``? * + {n,m}``, ``^ $ \\b``; anything else (look-around, references
back, \\p) is `Unsupported`. Groups are not captured; greedy and lazy are the same here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache

from tornado_gate.types.value import Value

LONGEST_PATTERN = 500
LONGEST_TEXT = 2_000
DEEPEST = 30
MOST_REPEATS = 1_000
MOST_STEPS = 5_000
POSITIONS_PER_STEP = 8


class Unsupported(Exception):
    """The pattern uses what this engine does not know, or would cost too much."""


class Chars(Value, frozen=True):
    """One character from `ranges` (code points, both ends included), or from outside of them."""

    ranges: tuple[tuple[int, int], ...]
    negated: bool = False

    def allows(self, character: str) -> bool:
        return any(low <= ord(character) <= high for low, high in self.ranges) != self.negated


class Sequence(Value, frozen=True):
    nodes: tuple[Node, ...]


class Either(Value, frozen=True):
    options: tuple[Node, ...]


class Repeat(Value, frozen=True):
    """`most` None means without end."""

    node: Node
    least: int
    most: int | None


class Edge(Value, frozen=True):
    """A place between characters: ``^``, ``$`` or ``b`` for a word's border."""

    kind: str


Node = Chars | Sequence | Either | Repeat | Edge

DIGITS = ((48, 57),)
WORD = ((97, 122), (65, 90), (48, 57), (95, 95))
SPACES = ((32, 32), (9, 13))
CLASSES = {"d": DIGITS, "w": WORD, "s": SPACES}
CONTROLS = {"n": "\n", "t": "\t", "r": "\r", "f": "\f", "v": "\v", "0": "\0"}
BRACES = {"?": (0, 1), "*": (0, None), "+": (1, None)}
READABLE = "abcdefghijklmnopqrstuvwxyz0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ-_. "


class _Parser:
    def __init__(self, pattern: str) -> None:
        if len(pattern) > LONGEST_PATTERN:
            raise Unsupported("the pattern is too long")
        self.rest = pattern

    def take(self) -> str:
        if not self.rest:
            raise Unsupported("the pattern ends too early")
        first, self.rest = self.rest[0], self.rest[1:]
        return first

    def skip(self, prefix: str) -> bool:
        found = self.rest.startswith(prefix)
        if found:
            self.rest = self.rest[len(prefix) :]
        return found

    def either(self, depth: int) -> Node:
        if depth > DEEPEST:
            raise Unsupported("the pattern is nested too deeply")
        options = [self.sequence(depth)]
        while self.skip("|"):
            options.append(self.sequence(depth))
        return options[0] if len(options) == 1 else Either(tuple(options))

    def sequence(self, depth: int) -> Node:
        nodes: list[Node] = []
        while self.rest and self.rest[0] not in "|)":
            nodes.append(self.repeated(self.atom(depth)))
        return Sequence(tuple(nodes))

    def atom(self, depth: int) -> Node:
        match self.take():
            case "(":
                return self.group(depth)
            case "[":
                return self.char_class()
            case ".":
                return Chars(((10, 10), (13, 13)), negated=True)
            case "^" | "$" as kind:
                return Edge(kind)
            case "\\":
                return self.escape()
            case "*" | "+" | "?":
                raise Unsupported("nothing to repeat")
            case character:
                return _one(character)

    def group(self, depth: int) -> Node:
        if self.skip("?"):
            named = self.skip("P<") or self.skip("<")
            if named and not self.rest.startswith(("=", "!")):
                self.rest = self.rest.partition(">")[2]
            elif not self.skip(":"):
                raise Unsupported("look-around")
        inside = self.either(depth + 1)
        if not self.skip(")"):
            raise Unsupported("an open group")
        return inside

    def escape(self) -> Node:
        character = self.take()
        if character == "b":
            return Edge("b")
        if character.lower() in CLASSES:
            return Chars(CLASSES[character.lower()], negated=character.isupper())
        return _one(self.literal(character))

    def literal(self, character: str) -> str:
        """The character that an escape stands for, after its backslash."""
        if character in "xu":
            width = 2 if character == "x" else 4
            digits = "".join(self.take() for _ in range(width))
            if not set(digits) <= set("0123456789abcdefABCDEF"):
                raise Unsupported("a bad escape")
            return chr(int(digits, 16))
        if character in CONTROLS:
            return CONTROLS[character]
        if character.isalnum():
            raise Unsupported(f"the escape {character}")
        return character

    def char_class(self) -> Chars:
        negated = self.skip("^")
        ranges: list[tuple[int, int]] = []
        first = True
        while first or not self.rest.startswith("]"):
            ranges += self.class_item()
            first = False
        self.skip("]")
        return Chars(tuple(ranges), negated)

    def class_item(self) -> tuple[tuple[int, int], ...]:
        character = self.take()
        if character == "\\":
            character = self.take()
            if character in CLASSES:
                return CLASSES[character]
            character = "\b" if character == "b" else self.literal(character)
        if self.rest.startswith("-") and self.rest[1:2] not in ("", "]"):
            self.skip("-")
            end = self.take()
            return ((ord(character), ord(self.literal(self.take()) if end == "\\" else end)),)
        return ((ord(character), ord(character)),)

    def repeated(self, node: Node) -> Node:
        if not self.rest:
            return node
        bounds = self.braces() if self.rest[0] == "{" else None
        if self.rest[:1] in BRACES and bounds is None and self.rest:
            bounds = BRACES[self.take()]
        if bounds is None:
            return node
        self.skip("?")
        least, most = bounds
        if max(least, most or 0) > MOST_REPEATS:
            raise Unsupported("too many repeats")
        return Repeat(node, least, most)

    def braces(self) -> tuple[int, int | None] | None:
        inside, closed, rest = self.rest[1:].partition("}")
        least, comma, most = inside.partition(",")
        if not closed or not least.isdecimal() or not (most.isdecimal() or not most):
            return None
        self.rest = rest
        return int(least), (int(most) if most else None) if comma else int(least)


def _one(character: str) -> Chars:
    return Chars(((ord(character), ord(character)),))


@lru_cache(maxsize=256)
def parse(pattern: str) -> Node:
    """Raises Unsupported."""
    parser = _Parser(pattern)
    node = parser.either(0)
    if parser.rest:
        raise Unsupported("a bracket too many")
    return node


class _Walk:
    """One search: from a set of places in `text` to the set of places behind what matched."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.steps = 0

    def ends(self, node: Node, starts: frozenset[int]) -> frozenset[int]:
        self.steps += 1 + len(starts) // POSITIONS_PER_STEP
        if self.steps > MOST_STEPS:
            raise Unsupported("too much work")
        match node:
            case Chars():
                return frozenset(at + 1 for at in starts if at < len(self.text) and node.allows(self.text[at]))
            case Sequence(nodes):
                for each in nodes:
                    starts = self.ends(each, starts)
                return starts
            case Either(options):
                return frozenset().union(*(self.ends(option, starts) for option in options))
            case Repeat():
                return self.repeat(node, starts)
            case Edge(kind):
                return frozenset(at for at in starts if self.at_edge(kind, at))

    def repeat(self, node: Repeat, starts: frozenset[int]) -> frozenset[int]:
        current = starts
        for _ in range(node.least):
            current = self.ends(node.node, current)
        reached, count = current, node.least
        while current and (node.most is None or count < node.most):
            current = self.ends(node.node, current) - reached  # what was reached before has been followed already
            reached |= current
            count += 1
        return reached

    def at_edge(self, kind: str, at: int) -> bool:
        if kind == "^":
            return at == 0
        if kind == "$":
            return at == len(self.text)
        word = Chars(WORD)
        before = at > 0 and word.allows(self.text[at - 1])
        after = at < len(self.text) and word.allows(self.text[at])
        return before != after


def matches(pattern: str, text: str, spend: Callable[[int], object]) -> bool:
    """Whether `pattern` is found anywhere in `text`. Raises Unsupported.

    `spend` is told what it cost: about one for ten microseconds.
    """
    if len(text) > LONGEST_TEXT:
        raise Unsupported("the text is too long")
    walk = _Walk(text)
    try:
        return bool(walk.ends(parse(pattern), frozenset(range(len(text) + 1))))
    finally:
        spend(walk.steps // 8 + len(pattern) // 16)


def examples(pattern: str, variant: int) -> Iterator[str]:
    """Texts that match, shorter ones first; another `variant` picks other characters. Raises Unsupported."""
    node = parse(pattern)
    for extra in (0, 1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 32, 64):
        yield _example(node, extra, variant)


def _example(node: Node, extra: int, variant: int) -> str:
    """A text for `node`, with each repeat done `extra` times more than it must be."""
    match node:
        case Chars():
            return _pick(node, variant)
        case Sequence(nodes):
            text = ""
            for each in nodes:
                text += _example(each, extra, variant)
                if len(text) > LONGEST_TEXT:
                    raise Unsupported("the text gets too long")
            return text
        case Either(options):
            return _example(options[variant % len(options)], extra, variant)
        case Repeat(inside, least, most):
            count = least + extra if most is None else min(least + extra, most)
            once = _example(inside, extra, variant) if count else ""
            if len(once) * count > LONGEST_TEXT:
                raise Unsupported("the text gets too long")
            return once * count
        case Edge():
            return ""


@lru_cache(maxsize=1024)
def _pick(chars: Chars, variant: int) -> str:
    choices = [character for character in READABLE if chars.allows(character)]
    if choices:
        return choices[variant % len(choices)]
    if chars.negated or not chars.ranges:
        raise Unsupported("a class without a readable character")
    return chr(chars.ranges[0][0])
