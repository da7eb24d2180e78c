"""The choice of the response's dialect, where the service's contract and the vendor's API differ. Pure functions.

A client that identifies itself as the vendor's SDK, or whose request goes beyond the contract, gets the vendor's dialect. Every
other client gets the contract's. The dialect is chosen once per request.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any, Final, Literal

from tornado_gate.types import Call

Dialect = Literal["contract", "vendor"]

_STAINLESS_PREFIX: Final = "x-stainless-"
_SDK_USER_AGENT: Final = re.compile(
    r"(?:^|[\s(])(?:(?:async)?(?:azure)?openai|agents|litellm|ai-sdk(?:-[a-z-]+)?)/", re.IGNORECASE
)
_BASE64_ONLY_USER_AGENT: Final = re.compile(r"(?:^|[\s(])ai-sdk(?:-[a-z-]+)?/", re.IGNORECASE)


def choose_dialect(
    headers: Mapping[str, str], *, within_contract: bool, override: Literal["contract", "vendor", "auto"] = "auto"
) -> Dialect:
    """Return the dialect for a request with these headers (lower-case names). `override` is the setting in conf."""
    if override != "auto":
        return override
    return "contract" if within_contract and not is_sdk(headers) else "vendor"


def is_contract_caller(call: Call, body: Mapping[str, Any], fields: Collection[str]) -> bool:
    """Return whether the caller gets the contract's dialect; `fields` are the fields of this body in the contract."""
    return choose_dialect(call.headers, within_contract=has_only(body, fields), override=call.dialect) == "contract"


def is_sdk(headers: Mapping[str, str]) -> bool:
    """Return whether the headers identify the vendor's SDK, or another library that parses only the vendor's responses.

    Source of the names: openai-python 3.52; LiteLLM's own HTTP client (``litellm/1.80.0``); Vercel's AI SDK
    (``ai/7.0.173 ai-sdk-provider-utils/5.0.81 …``; older ones ``ai-sdk/openai/2.0.0``).
    """
    return any(name.startswith(_STAINLESS_PREFIX) for name in headers) or bool(
        _SDK_USER_AGENT.search(headers.get("user-agent", ""))
    )


def reads_only_base64(headers: Mapping[str, str]) -> bool:
    """Return whether the headers identify a library that reads ``b64_json`` of images and no ``url``, whatever the model.

    Vercel's AI SDK (@ai-sdk/openai, ``OpenAIImageModel``) does, although it sends no ``response_format`` with edits.
    """
    return bool(_BASE64_ONLY_USER_AGENT.search(headers.get("user-agent", "")))


def has_only(body: Mapping[str, Any], names: Collection[str]) -> bool:
    """Return whether all members of a body that are not null are in `names`."""
    return all(name in names for name, value in body.items() if value is not None)
