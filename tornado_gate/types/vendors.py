"""What a provider plugin knows about vendors: the accounts that it can use, and the models that an account has."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from tornado_gate.types.value import Value, field


class Vendor(Value, frozen=True, kw_only=True):
    """A vendor whose accounts a plugin can use; a preset of a provider entry.

    `name` is a short name in lower case, which a new provider entry gets; `title` is the name that people read. `base_url` is the
    address of the API, "" if each customer has a separate one. `settings` are the plugin's settings of such an entry.
    `needs_key`: the vendor refuses requests without a key.
    """

    name: str
    title: str
    base_url: str = ""
    settings: Mapping[str, Any] = field(default_factory=dict)
    needs_key: bool = True


MOST_LISTED_MODELS: Final = 5000
"""The maximum number of models that is read of a vendor's list."""


class ListedModel(Value, frozen=True, kw_only=True):
    """A model in a vendor's own list. `context_tokens` is its largest number of input tokens; None if the list does not say."""

    name: str
    context_tokens: int | None = None
