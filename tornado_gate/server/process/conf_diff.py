"""The diff of two texts of a configuration file, without secrets.

The parsed nodes decide which values are secret, in any spelling: plain, quoted, block scalars, flow mappings, aliases. Secret
values and all comments are masked in both texts, line by line, so that the line numbers match the file.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator
from typing import Final

import yaml

from tornado_gate.codec.secret_words import MASK, is_harmless, is_secret_name, is_secret_value
from tornado_gate.config import source
from tornado_gate.config.edit import SECTION
from tornado_gate.config.yaml_edit import compose_nodes, find_end, get_entries
from tornado_gate.telemetry.redaction import Scrubber

CONTEXT_LINES: Final = 3
COMMENT: Final = "# …"
CORE_OPTIONS: Final = frozenset({"on", "required", "models", "operations", "keys"})
"""Options of a plugin's entry whose meaning the core defines: `keys` has names of keys."""
_HEADER_NAMES: Final = frozenset({"name", "header", "key"})
"""Names that mark a pair in ``{name: authorization, value: …}`` as the name of the other values."""

Span = tuple[int, int]


def make_diff(old: str, new: str, file: str) -> str:
    """Return the unified diff of two valid texts; "" if they are equal.

    The lines around the change are shown only from the section ``plugins``: other sections concern others.
    """
    before, after = (mask_secrets(text).splitlines() for text in (old, new))
    lines = difflib.unified_diff(before, after, file, file, lineterm="", n=CONTEXT_LINES)
    return "\n".join(_drop_other_sections(lines, old))


def mask_secrets(text: str) -> str:
    """Return a valid text with the same number of lines, in which secret values and comments are masked."""
    mark = "\ufeff" if text.startswith("\ufeff") else ""
    body = text.removeprefix(mark)
    spans = [(span, MASK) for span in _SecretFinder(body).find_spans()]
    spans += [(span, COMMENT) for span in _find_comments(body)]
    parts, end = [mark], 0
    for (start, stop), replacement in sorted(spans):
        if stop > end:
            first = max(start, end)
            parts += [body[end:first], _replace_lines(body[first:stop], replacement)]
            end = stop
    return "".join([*parts, body[end:]])


def find_secret_texts(text: str) -> set[str]:
    """Return the secret values of a text, which messages about it must mask; an empty set for an invalid text."""
    try:
        return _SecretFinder(text.removeprefix("\ufeff")).list_texts()
    except yaml.YAMLError:
        return set()


class _SecretFinder:
    """A finder of the secret scalars of a text. A node that an alias repeats is secret if it is secret in one position."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._secret: dict[int, yaml.ScalarNode] = {}
        self._shown: dict[int, yaml.ScalarNode] = {}
        self._is_shown = False
        self._visited: set[tuple[int, bool]] = set()
        for name, section in get_entries(compose_nodes(text)):
            self._is_shown = _get_text(name) == SECTION
            for key, value in [*get_entries(section), *([(name, section)] if not get_entries(section) else [])]:
                self._visit_entry(key, value)

    def list_texts(self) -> set[str]:
        return {node.value for node in self._secret.values()}

    def find_spans(self) -> list[Span]:
        """Return the positions of the secrets, and of the scalars in the section ``plugins`` that repeat one of them."""
        secret_texts = Scrubber(self.list_texts())
        repeated = [node for node in self._shown.values() if not secret_texts.is_clean(node.value)]
        nodes = {id(node): node for node in (*self._secret.values(), *repeated)}
        return [(node.start_mark.index, node.end_mark.index) for node in nodes.values()]

    def _visit_entry(self, key: yaml.Node, value: yaml.Node) -> None:
        """Visit an entry of a section. Its name is the name of a plugin, a provider or a field."""
        self._visit(key, is_secret=False)
        if not self._is_shown:
            is_field = not isinstance(value, yaml.MappingNode)
            self._visit(value, is_secret=is_field and is_secret_name(_get_text(key)))
            return
        self._visit_pairs(value, is_secret=False, names=CORE_OPTIONS)
        if not isinstance(value, yaml.MappingNode):
            self._visit(value, is_secret=False)

    def _visit(self, node: yaml.Node, *, is_secret: bool) -> None:
        """Visit a node in a position that is secret or not; a source bounds the depth."""
        if (id(node), is_secret) in self._visited:
            return
        self._visited.add((id(node), is_secret))
        if isinstance(node, yaml.ScalarNode):
            self._visit_scalar(node, is_secret=is_secret)
        elif isinstance(node, yaml.SequenceNode):
            for item in node.value:
                self._visit(item, is_secret=is_secret)
        else:
            self._visit_pairs(node, is_secret=is_secret)

    def _visit_pairs(self, node: yaml.Node, *, is_secret: bool, names: frozenset[str] = frozenset()) -> None:
        pairs = get_entries(node)
        named = any(_get_text(key) in _HEADER_NAMES and is_secret_name(_get_text(value)) for key, value in pairs)
        for key, value in pairs:
            name = _get_text(key)
            self._visit(key, is_secret=False)
            is_own = name not in names and (is_secret_name(name) or (named and name not in _HEADER_NAMES))
            self._visit(value, is_secret=is_secret or is_own)

    def _visit_scalar(self, node: yaml.ScalarNode, *, is_secret: bool) -> None:
        if self._is_shown:
            self._shown[id(node)] = node
        written = self._text[node.start_mark.index : node.end_mark.index]
        if (is_secret and not is_harmless(written)) or is_secret_value(node.value):
            self._secret[id(node)] = node


def _get_text(node: yaml.Node) -> str:
    return node.value if isinstance(node, yaml.ScalarNode) else ""


def _find_comments(text: str) -> Iterator[Span]:
    """Yield the positions of comments: from a number sign between two tokens to the end of the line.

    Only comments and blanks are between tokens.
    """
    end = 0
    for start, stop, style in _list_tokens(text):
        yield from ((end + match.start(), end + match.end()) for match in re.finditer(r"#.*", text[end:start]))
        if style in ("|", ">"):
            head = text[start:stop].partition("\n")[0]
            if "#" in head:
                yield start + head.index("#"), start + len(head)
        end = max(end, stop)
    yield from ((end + match.start(), end + match.end()) for match in re.finditer(r"#.*", text[end:]))


def _list_tokens(text: str) -> Iterator[tuple[int, int, str]]:
    """Return the tokens of a text: start, end, and the style of a scalar."""
    loader = source.make_loader(text)
    try:
        while (token := loader.get_token()) is not None:
            yield token.start_mark.index, token.end_mark.index, getattr(token, "style", None) or ""
    finally:
        loader.dispose()


def _replace_lines(text: str, replacement: str) -> str:
    """Replace the content of each line, and keep the ends of lines."""
    lines = text.splitlines(keepends=True)
    ends = [line[len(line.rstrip("\r\n\x85\u2028\u2029")) :] for line in lines]
    return "".join(replacement + end for end in ends)


def _drop_other_sections(lines: Iterable[str], old: str) -> Iterator[str]:
    """Return the lines of a diff; an ellipsis replaces lines of context outside of the section ``plugins``."""
    first, last = _find_section_lines(old)
    number, is_hidden = 0, False
    for line in lines:
        was_hidden, is_hidden = is_hidden, False
        if header := re.match(r"@@ -(\d+)", line):
            number = int(header[1]) - 1
        elif line.startswith((" ", "-")) and not line.startswith("--- "):
            number += 1
            is_hidden = line.startswith(" ") and not first <= number <= last
        if not is_hidden:
            yield line
        elif not was_hidden:
            yield " …"


def _find_section_lines(text: str) -> tuple[int, int]:
    """Return the first and the last line of the section ``plugins``, counted from 1; (0, 0) without one."""
    body = text.removeprefix("\ufeff")
    for key, value in get_entries(compose_nodes(body)):
        if _get_text(key) == SECTION:
            return key.start_mark.line + 1, len(body[: find_end(key, value)].splitlines())
    return 0, 0
