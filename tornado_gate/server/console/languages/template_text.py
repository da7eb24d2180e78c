"""The texts of a template for people, found in its source, and the source with these texts in another language.

Templates carry no marks. A message is a run of text with the expressions and inline tags in it, between two block tags or
statements: ``The key “{{ name }}” is <em>ready</em>`` is the message ``The key “{1}” is <1>ready</1>``. The values of the
attributes in `_TEXT_ATTRIBUTES` are messages too, and so are string constants that an expression may have as its result.
A template is translated once, when it is loaded, so a page in another language costs what an English one costs.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from tornado_gate.server.console.languages.expressions import Literal, find_literals, replace_literals

_TEXT_ATTRIBUTES = frozenset({"alt", "aria-label", "data-confirm", "data-label", "placeholder", "title"})
_INLINE_TAGS = frozenset({"a", "abbr", "b", "em", "i", "small", "span", "strong"})
_OPAQUE_TAGS = frozenset({"code", "kbd", "time"})  # in a message they stand as one placeholder
_TAGS_OF_PROGRAMS = frozenset({"pre", "script", "style", "svg"})
_MARKS = r"\{\{.*?\}\}|\{%.*?%\}"
_TOKENS = re.compile(
    r"(?P<comment>\{#.*?#\}|<!--.*?-->|<![^>]*>)"
    r"|(?P<expression>\{\{.*?\}\}|\{%\s*raw\s.*?%\})"
    r"|(?P<statement>\{%.*?%\})"
    rf"|(?P<tag></?[a-zA-Z](?:[^<>{{]|{_MARKS}|\{{(?![{{%]))*>)"
    r"|(?P<text>[^{<]+|[{<])",
    re.DOTALL,
)
_ATTRIBUTE = re.compile(rf'(?<=\s)([a-z-]+)="((?:[^"{{]|{_MARKS}|\{{(?![{{%]))*)"', re.DOTALL)
_PLACEHOLDER = re.compile(r"\{(\d{1,3})\}|<(/?)(\d{1,3})>")
_EXPRESSION = re.compile(r"(\{\{|\{%\s*raw\s)(.*?)(\}\}|%\})", re.DOTALL)
_LETTER = re.compile(r"[^\W\d_]")
_ENTITY = re.compile(r"&#?\w{1,20};")
_NAME = re.compile(r"</?([a-zA-Z][a-zA-Z0-9]*)")


class Message(NamedTuple):
    """A text for people. `context` tells apart equal texts of different meaning."""

    text: str
    context: str = ""


class Token(NamedTuple):
    """A piece of a template's source. `kind` is comment, expression, statement, tag or text."""

    kind: str
    source: str

    @property
    def name(self) -> str:
        """Return the name of a tag, "" for other tokens."""
        match = _NAME.match(self.source) if self.kind == "tag" else None
        return match[1].lower() if match else ""

    @property
    def is_end(self) -> bool:
        return self.source.startswith("</")


Translate = Callable[[Message], str]
"""Returns a message in another language, or the text of the message itself."""


def find_messages(source: str) -> list[Message]:
    """Return the messages of a template in their order. One that occurs twice is there twice."""
    messages: list[Message] = []

    def keep(message: Message) -> str:
        messages.append(message)
        return message.text

    translate_source(source, keep)
    for token in _tokenize(source):
        if token.kind != "comment":
            messages += [
                Message(each.text, "count") for each in find_literals(_strip_marks(token.source), counted=True)
            ]
    return messages


def translate_source(source: str, translate: Translate) -> str:
    """Return the source of a template in another language."""
    return "".join(_translate_tokens(_merge_opaque(_tokenize(source)), translate))


def fill(text: str, sources: Sequence[str], tags: Sequence[tuple[str, str]]) -> str:
    """Return a translated message with the sources of its expressions, and its pairs of tags, in their places.

    Raises IndexError for a placeholder that the message does not have.
    """

    def put(match: re.Match[str]) -> str:
        if match[1]:
            return sources[int(match[1]) - 1]
        return tags[int(match[3]) - 1][bool(match[2])]

    return _PLACEHOLDER.sub(put, text)


def list_placeholders(text: str) -> list[str]:
    """Return the placeholders of a message, sorted. A translation has the same ones."""
    return sorted(match[0] for match in _PLACEHOLDER.finditer(text))


def _tokenize(source: str) -> list[Token]:
    return [Token(str(match.lastgroup), match[0]) for match in _TOKENS.finditer(source)]


def _strip_marks(source: str) -> str:
    match = _EXPRESSION.fullmatch(source)
    return match[2] if match else ""


def _merge_opaque(tokens: list[Token]) -> Iterator[Token]:
    """Make one token of each element whose content is the same in every language."""
    position = 0
    while position < len(tokens):
        token = tokens[position]
        end = position
        if token.name in _OPAQUE_TAGS | _TAGS_OF_PROGRAMS and not token.is_end:
            end = next(
                (i for i in range(position, len(tokens)) if tokens[i].is_end and tokens[i].name == token.name), position
            )
        if end == position:
            yield token
        else:
            kind = "comment" if token.name in _TAGS_OF_PROGRAMS else "opaque"
            yield Token(kind, "".join(each.source for each in tokens[position : end + 1]))
        position = end + 1


def _translate_tokens(tokens: Iterator[Token], translate: Translate) -> Iterator[str]:
    run: list[Token] = []
    for token in tokens:
        if token.kind in ("text", "expression", "opaque") or token.name in _INLINE_TAGS:
            run.append(token)
            continue
        yield from _translate_run(run, translate)
        run = []
        yield _translate_alone(token, translate)
    yield from _translate_run(run, translate)


def _translate_run(run: list[Token], translate: Translate) -> Iterator[str]:
    """Translate tokens that no block tag and no statement divides. A tag without its other half divides them too."""
    partners = _find_partners(run)
    cut = next((i for i, token in enumerate(run) if token.name and i not in partners), None)
    if cut is not None:
        yield from _translate_run(run[:cut], translate)
        yield _translate_alone(run[cut], translate)
        yield from _translate_run(run[cut + 1 :], translate)
    elif _has_own_text(run, partners):
        yield _translate_message(run, partners, translate)
    else:
        yield from _translate_parts(run, partners, translate)


def _find_partners(run: list[Token]) -> dict[int, int]:
    """Return the position of each tag's other half, by position."""
    partners: dict[int, int] = {}
    opened: list[int] = []
    for position, token in enumerate(run):
        if token.name and not token.is_end:
            opened.append(position)
        elif token.name and opened and run[opened[-1]].name == token.name:
            start = opened.pop()
            partners[start], partners[position] = position, start
    return partners


def _has_own_text(run: list[Token], partners: dict[int, int]) -> bool:
    """Return whether words stand outside all tags of the run."""
    position = 0
    while position < len(run):
        token = run[position]
        if token.kind == "text" and _LETTER.search(_ENTITY.sub("", token.source)):
            return True
        position = partners.get(position, position) + 1
    return False


def _translate_parts(run: list[Token], partners: dict[int, int], translate: Translate) -> Iterator[str]:
    """Translate the content of each tag by itself."""
    position = 0
    while position < len(run):
        yield _translate_alone(run[position], translate)
        end = partners.get(position, position)
        if end > position:
            yield from _translate_run(run[position + 1 : end], translate)
            yield _translate_alone(run[end], translate)
        position = end + 1


def _translate_message(run: list[Token], partners: dict[int, int], translate: Translate) -> str:
    """Translate a run as one message."""
    starts = [i for i in range(len(run)) if partners.get(i, -1) > i]
    numbers = {position: number for number, start in enumerate(starts, 1) for position in (start, partners[start])}
    sources: list[str] = []
    pieces: list[str] = []
    for position, token in enumerate(run):
        if token.kind == "text":
            pieces.append(token.source)
        elif token.name:
            pieces.append(f"<{'/' * token.is_end}{numbers[position]}>")
        else:
            sources.append(_translate_alone(token, translate))
            pieces.append(f"{{{len(sources)}}}")
    tags = [(_translate_alone(run[start], translate), run[partners[start]].source) for start in starts]
    return _translate_text("".join(pieces), sources, tags, translate)


def _translate_text(text: str, sources: list[str], tags: list[tuple[str, str]], translate: Translate) -> str:
    """Translate a text. The spaces around it stay, and those in it become single ones."""
    head = text[: len(text) - len(text.lstrip())]
    tail = text[len(text.rstrip()) :]
    return head + fill(translate(Message(" ".join(text.split()))), sources, tags) + tail


def _translate_alone(token: Token, translate: Translate) -> str:
    """Translate the attributes of a tag, or the constants of an expression; other tokens stay."""
    if token.kind == "tag":
        return _ATTRIBUTE.sub(lambda match: _translate_attribute(match, translate), token.source)
    if token.kind == "expression":
        return _EXPRESSION.sub(
            lambda match: match[1] + _translate_literals(match[2], translate) + match[3], token.source
        )
    return token.source


def _translate_literals(expression: str, translate: Translate) -> str:
    def choose(literal: Literal) -> str:
        return translate(Message(literal.text)) if _LETTER.search(literal.text) else literal.text

    return replace_literals(expression, choose)


def _translate_attribute(match: re.Match[str], translate: Translate) -> str:
    """Translate the value of an attribute. Statements in it divide its texts."""
    if match[1] not in _TEXT_ATTRIBUTES:
        return match[0]
    tokens = (Token("text" if each.kind == "tag" else each.kind, each.source) for each in _tokenize(match[2]))
    return f'{match[1]}="{"".join(_translate_tokens(tokens, lambda message: translate(message).replace(chr(34), "&quot;")))}"'
