"""Which of two shapes a caller gets where the service's contract and the vendor's own API differ. Pure.

The contract's clients expect what it shows; the vendor's SDKs expect what the vendor says. A client that names itself as
an SDK of the vendor's, or that uses anything beyond the contract, is of the second kind. Decided once for each request.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any, Final, Literal

Dialect = Literal["contract", "vendor"]

_STAINLESS_PREFIX: Final = "x-stainless-"
_SDK_USER_AGENT: Final = re.compile(r"(?:^|[\s(])(?:(?:async)?(?:azure)?openai|agents)/", re.IGNORECASE)


def choose_dialect(
    headers: Mapping[str, str], *, within_contract: bool, override: Literal["contract", "vendor", "auto"] = "auto"
) -> Dialect:
    """The dialect for a request with these headers (lower-case names). `override` is what conf demands."""
    if override != "auto":
        return override
    return "contract" if within_contract and not is_sdk(headers) else "vendor"


def is_sdk(headers: Mapping[str, str]) -> bool:
    """Whether the client says that it is the vendor's SDK, or a library on it that replaces its User-Agent."""
    return any(name.startswith(_STAINLESS_PREFIX) for name in headers) or bool(
        _SDK_USER_AGENT.search(headers.get("user-agent", ""))
    )


def has_only(body: Mapping[str, Any], names: Collection[str]) -> bool:
    """Whether nothing but `names` is said in a body."""
    return all(name in names for name, value in body.items() if value is not None)
