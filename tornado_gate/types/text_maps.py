"""Where the texts of a route's bodies, stream events and messages are. Guards read and replace them (`types/texts.py`).

A format describes the JSON of a route with *shapes*. Every string is a text, unless a shape says what else it is, so a
member that a vendor adds tomorrow is seen by guards as a text of the kind "other". Arrays need no shape: a shape
applies to each item of an array. A shape for objects applies to a string, too: ``"content": PART`` describes a string
and a list of parts.

The *place* of a text is its path in a whole response. A text that arrives in pieces, and the events that repeat it as a
whole, have the same place, so that the repetitions get the same replacements.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Final

from tornado_gate.types.texts import TextKind
from tornado_gate.types.value import Value, field, replace


class Shape(Value, frozen=True, kw_only=True, eq=False):
    """What a value of a body is. Use a subclass."""


class Word(Shape, frozen=True, kw_only=True, eq=False):
    """An id, a type, a role or another name: a string of ASCII characters without white space, ``@`` and control
    characters, at most 512 long. In a request it is a fixed text of the kind "name", seen once for each body; in an answer
    it is no text. Any other string in its place is a text of the kind "other".
    """


class Data(Shape, frozen=True, kw_only=True, eq=False):
    """Base64 or encrypted data that is not a text, such as a signature. A string with a space, ``@`` or characters
    beyond ASCII is a text. In a request, base64 of text and what is not base64 are texts, too.

    `json_after` is the start of strings of the gateway itself, in which base64 of JSON follows: its strings are texts, if
    one of them is more than data.
    """

    json_after: str = ""


class Text(Shape, frozen=True, kw_only=True, eq=False):
    """A text, or an object or array in which all strings are texts. `kind` None: the kind that an object around it has
    chosen.

    `signed_by` is a member beside it with a vendor's signature of the text: in a request such a text is fixed. `delta`:
    in a stream event, a piece of the text whose place is `place`.
    """

    kind: TextKind | None = None
    signed_by: str = ""
    delta: bool = False
    place: str = ""


class JsonText(Text, frozen=True, kw_only=True, eq=False):
    """JSON inside a string, such as the arguments of a tool call: each string in it is a text, and replacements keep it
    valid. An object in its place is read as `Text`. What is not JSON is one text.
    """


class Media(Shape, frozen=True, kw_only=True, eq=False):
    """A file: a data URL, an address, or base64 with its media type in a member beside it. A file is a text if its
    content or its media type is (`codec/text_files.py`); an address is a text; images, sound and other files are not. What
    cannot be read in exactly one way is unread: a required guard blocks it.
    """


class Derived(Shape, frozen=True, kw_only=True, eq=False):
    """A value that reveals texts, such as log probabilities: it becomes `empty` if a text was replaced whose place is
    `of` or begins with it. `of` is relative to the place of the object around it. Strings in it are texts if `shape` is
    given, else they are none.

    In a stream without `shape`, its pieces arrive with those of the text, and are held back as long.
    """

    of: str = ""
    empty: Any = None
    shape: Shape | None = None


class Offset(Shape, frozen=True, kw_only=True, eq=False):
    """A position, in characters, in the text at the place `of`, which is relative to the place of the object around it.
    It is moved by the replacements before it.
    """

    of: str


class Object(Shape, frozen=True, kw_only=True, eq=False):
    """An object with the shapes of its members. `others` is the shape of all other members.

    `string` is the shape of a string in its place, by default a text of the kind that it would have.

    `kinds` chooses the kind of the texts in it by the value of a member: ``{"role": {"user": "user"}}``; the first
    member that is found decides, else `kind`, else the object around it.

    `place` is its place relative to the object around it, "" for the usual one, which is the name of its member, with
    the number of the item in an array. `ends` are members that end texts of a stream: if one is neither null nor empty,
    the texts at the given places, relative to the object's, and below them have no more pieces after this event.
    """

    hidden_fields: ClassVar[frozenset[str]] = frozenset(
        {"members", "others", "string"}
    )  # shapes may contain themselves

    members: dict[str, Shape] = field(default_factory=dict)
    string: Shape | None = None
    others: Shape | None = None
    kind: TextKind | None = None
    kinds: Mapping[str, Mapping[str, TextKind]] = field(default_factory=dict)
    place: str = ""
    ends: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


class Events(Shape, frozen=True, kw_only=True, eq=False):
    """The shapes of objects by the value of their member `name`. `other` is the shape of all other objects."""

    hidden_fields: ClassVar[frozenset[str]] = frozenset({"shapes", "other"})

    shapes: Mapping[Any, Shape]  # keys are strings, or True and False
    other: Shape
    name: str = "type"


WORD: Final = Word()
DATA: Final = Data()
TEXT: Final = Text()
MEDIA: Final = Media()
OTHER: Final = Text(kind="other")


def words(*names: str) -> dict[str, Shape]:
    """Return members that are no texts."""
    return dict.fromkeys(names, WORD)


def at_place(shape: Shape, place: str) -> Shape:
    """Return a shape of objects with another place."""
    if isinstance(shape, Events):
        shapes = {value: at_place(one, place) for value, one in shape.shapes.items()}
        return Events(shapes=shapes, other=at_place(shape.other, place), name=shape.name)
    assert isinstance(shape, Object), "only objects have a place"
    return replace(shape, place=place)


class TextMap(Value, frozen=True, kw_only=True, eq=False):
    """The shapes of one route: of a request, of a whole response, of one event of a streamed response, and for realtime
    sessions of the messages of both directions. A text response, such as a subtitle file, is one text of the kind
    "assistant".
    """

    request: Shape = OTHER
    response: Shape = OTHER
    event: Shape | None = None
    client_message: Shape | None = None
    server_message: Shape | None = None
