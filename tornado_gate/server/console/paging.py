"""Pages of a list: the number in the address, and links to the neighbours."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlencode

from tornado_gate.types.value import Value

PAGE_ROWS = 50
LAST_PAGE = 1_000_000


class Paging(Value, frozen=True, kw_only=True):
    """A page of a list of `total` rows. Its address is `path` with the filters in `query`. `number` counts from 1."""

    path: str
    query: Mapping[str, str]
    number: int
    total: int
    rows: int = PAGE_ROWS

    @property
    def last(self) -> int:
        return max(1, -(-self.total // self.rows))

    @property
    def summary(self) -> str:
        """Return ``51 to 100 of 10,000``."""
        if not self.total:
            return "0 of 0"
        first = (self.number - 1) * self.rows + 1
        return f"{first:,} to {min(self.total, first + self.rows - 1):,} of {self.total:,}"

    @property
    def previous(self) -> str:
        """Return the address of the previous page, "" on the first one."""
        return self._make_link(self.number - 1) if self.number > 1 else ""

    @property
    def next(self) -> str:
        return self._make_link(self.number + 1) if self.number < self.last else ""

    def _make_link(self, number: int) -> str:
        parameters = {name: value for name, value in self.query.items() if value}
        return f"{self.path}?{urlencode({**parameters, 'page': number}, errors='replace')}"


def parse_page(text: str) -> int:
    """Return the page number in an address; 1 for any other text."""
    return min(max(1, int(text)), LAST_PAGE) if text.isascii() and text.isdigit() and len(text) < 10 else 1
