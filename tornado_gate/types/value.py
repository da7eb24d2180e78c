"""Base classes of the gateway's data types.

`Value` is a `msgspec.Struct`: a frozen one takes 0.15 µs to create and 18 µs to define; a frozen dataclass takes 1.7 and 950
µs. A streamed response creates hundreds. `replace` copies a value; `msgspec.structs` has `fields` and `asdict`.
"""

from __future__ import annotations

from typing import ClassVar

import msgspec
from msgspec import field
from msgspec.structs import replace

__all__ = ["State", "Value", "field", "replace"]


class _ReprMixin:
    """A base class with a `repr` that omits the fields in `hidden_fields`."""

    __slots__ = ()

    hidden_fields: ClassVar[frozenset[str]] = frozenset()
    """Fields that `repr` omits: secrets and long values."""
    __struct_fields__: ClassVar[tuple[str, ...]]

    def __repr__(self) -> str:
        shown = (name for name in self.__struct_fields__ if name not in self.hidden_fields)
        return f"{type(self).__qualname__}({', '.join(f'{name}={getattr(self, name)!r}' for name in shown)})"


class Value(_ReprMixin, msgspec.Struct, frozen=True):
    """An immutable record. Subclasses repeat `frozen=True`, and set `kw_only=True` if they have many fields."""


class State(_ReprMixin, msgspec.Struct):
    """A mutable record."""
