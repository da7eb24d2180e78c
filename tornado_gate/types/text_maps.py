"""The places of the texts in a route's bodies, stream events and messages. Guards read and replace them (`types/texts.py`).

A format describes the JSON of a route with *shapes*. Every string is a text, unless a shape declares it as something else.
So guards read a member that a vendor adds tomorrow as a text of the kind "other". Arrays need no shape: a shape applies to
each item of an array. A shape for objects also applies to a string: ``"content": PART`` describes a string and a list of
parts.

The *place* of a text is its path in a whole response. A stream may send a text in several events and repeat the whole text in
later events. All of them have the same place, so the repetitions get the same replacements.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Final

from tornado_gate.types.texts import TextKind
from tornado_gate.types.value import Value, field, replace


class Shape(Value, frozen=True, kw_only=True, eq=False):
    """The meaning of a value in a body. Use a subclass."""


class Word(Shape, frozen=True, kw_only=True, eq=False):
    """An id, a type, a role or another name: a string of ASCII characters without white space, ``@`` and control
    characters, at most 512 long. In a request it is a fixed text of the kind "name", and guards read it once for each body.
    In a response it is not a text. Any other string in its place is a text of the kind "other".
    """


class Data(Shape, frozen=True, kw_only=True, eq=False):
    """Base64 or encrypted data that is not a text, such as a signature. A string with a space, ``@`` or characters
    beyond ASCII is a text. In a request, base64 of text is a text, and so is a string that is not base64.

    `json_after` is the prefix of the gateway's own strings, after which base64 of JSON follows. The strings of that JSON are
    texts, if one of them is more than data.
    """

    json_after: str = ""


class Text(Shape, frozen=True, kw_only=True, eq=False):
    """A text, or an object or array in which all strings are texts. With `kind` None, an enclosing object chooses the kind.

    `signed_by` is a sibling member with a vendor's signature of the text. In a request such a text is fixed. `delta`: the
    stream event has a piece of the text whose place is `place`.
    """

    kind: TextKind | None = None
    signed_by: str = ""
    delta: bool = False
    place: str = ""


class JsonText(Text, frozen=True, kw_only=True, eq=False):
    """JSON inside a string, such as the arguments of a tool call: each string in it is a text, and replacements keep it
    valid. An object in its place is read as `Text`. A string that is not JSON is one text.
    """


class Media(Shape, frozen=True, kw_only=True, eq=False):
    """A file: a data URL, an address, or base64 with its media type in a sibling member. A file is a text if its content or its
    media type is text (`codec/text_files.py`). An address is a text. Images, sound and other files are not texts. A file that
    cannot be read in exactly one way is unread: a required guard blocks it.
    """


class Derived(Shape, frozen=True, kw_only=True, eq=False):
    """A value that reveals texts, such as log probabilities. It becomes `empty` if a text was replaced whose place is `of` or
    begins with it. `of` is relative to the place of the enclosing object. Its strings are texts only if `shape` is given.

    In a stream without `shape`, its pieces arrive together with the pieces of the text, and are held back equally long.
    """

    of: str = ""
    empty: Any = None
    shape: Shape | None = None


class Offset(Shape, frozen=True, kw_only=True, eq=False):
    """A position, in characters, in the text at the place `of`, which is relative to the place of the enclosing object.
    Replacements before it change it.
    """

    of: str


class Object(Shape, frozen=True, kw_only=True, eq=False):
    """An object with the shapes of its members. `others` is the shape of all other members.

    `string` is the shape of a string in place of the object. By default it is a text of the kind that texts of the object have.

    `kinds` chooses the kind of the texts in it by the value of a member: ``{"role": {"user": "user"}}``. The first member
    found decides, else `kind`, else the enclosing object.

    `place` is its place relative to the enclosing object. "" means the usual place: the name of its member, with the number of
    the item in an array. `ends` are members that end texts of a stream, with places relative to the object's. If such a member
    is neither null nor empty, the texts at and below its places have no more pieces after this event.
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
