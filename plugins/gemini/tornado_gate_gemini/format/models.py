"""The model list in the wire format, with pagination.

Source: google-genai 3.4, types.Model and ListModelsConfig. The vendor's page size is 50 models by default, 1000 at most.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from typing import Any, Final

from tornado_gate.errors import InvalidField
from tornado_gate.types import Model, ModelList, ModelsRequest
from tornado_gate.types.value import Value

PAGE_SIZE: Final = 50
MAX_PAGE_SIZE: Final = 1000
MODEL_VERSION: Final = "001"
DEFAULT_INPUT_TOKENS: Final = 1_048_576
DEFAULT_OUTPUT_TOKENS: Final = 65_536

_GENERATE: Final = ("generateContent", "streamGenerateContent")
_METHODS_OF_OPERATION: Final[Mapping[str, tuple[str, ...]]] = {
    "chat": _GENERATE,
    "images": _GENERATE,
    "image_edits": _GENERATE,
    "speech": _GENERATE,
    "count_tokens": ("countTokens",),
    "embeddings": ("embedContent", "batchEmbedContents"),
}
_TOKEN_PREFIX: Final = "page:"


class GeminiModelsPage(Value, frozen=True, kw_only=True):
    """The requested page: `size` models, the first at index `start`."""

    size: int = PAGE_SIZE
    start: int = 0


def parse_page(query: Mapping[str, str]) -> GeminiModelsPage:
    """Parse the page parameters of a query, in camelCase or snake_case. Raises InvalidField."""
    name, size = _get_page_parameters(query, "pageSize", "page_size")
    if size and not (size.isascii() and size.isdigit() and len(size) <= 9):
        raise InvalidField(name, f"'{name}' must be an integer of at most 9 digits, not '{size[:50]}'.")
    token_name, token = _get_page_parameters(query, "pageToken", "page_token")
    return GeminiModelsPage(size=min(int(size or 0) or PAGE_SIZE, MAX_PAGE_SIZE), start=_parse_token(token_name, token))


def _get_page_parameters(query: Mapping[str, str], *names: str) -> tuple[str, str]:
    return next(((name, query[name]) for name in names if query.get(name)), (names[0], ""))


def _parse_token(name: str, token: str) -> int:
    if not token:
        return 0
    try:
        text = base64.urlsafe_b64decode(token).decode("ascii")
        return (
            int(text.removeprefix(_TOKEN_PREFIX))
            if text.startswith(_TOKEN_PREFIX) and text[len(_TOKEN_PREFIX) :].isdigit()
            else int("")
        )
    except (binascii.Error, ValueError):
        raise InvalidField(
            name, f"'{name}' is not a valid page token. Send 'nextPageToken' of the previous page."
        ) from None


def render_models(models: ModelList, request: ModelsRequest) -> dict[str, Any]:
    """Return one page of the list, or the requested model."""
    if models.single:
        return _render_model(models.models[0])
    page = request.reply_state if isinstance(request.reply_state, GeminiModelsPage) else GeminiModelsPage()
    usable = [model for model in models.models if _list_methods(model)]
    end = page.start + page.size
    listed: dict[str, Any] = {"models": [_render_model(model) for model in usable[page.start : end]]}
    if end < len(usable):
        listed["nextPageToken"] = base64.urlsafe_b64encode(f"{_TOKEN_PREFIX}{end}".encode()).decode()
    return listed


def _list_methods(model: Model) -> list[str]:
    """Return the names of the methods that the model supports, each once."""
    reaching = (methods for operation, methods in _METHODS_OF_OPERATION.items() if operation in model.operations)
    return list(dict.fromkeys(method for methods in reaching for method in methods))


def _render_model(model: Model) -> dict[str, Any]:
    facts = model.facts
    name = model.id if model.id.startswith("tunedModels/") else f"models/{model.id}"
    base = {"baseModelId": facts["base_model_id"]} if facts.get("base_model_id") else {}
    return {
        "name": name,
        **base,
        "version": facts.get("version") or MODEL_VERSION,
        "displayName": facts.get("display_name") or model.id,
        "description": facts.get("description") or "",
        "inputTokenLimit": facts.get("input_token_limit") or DEFAULT_INPUT_TOKENS,
        "outputTokenLimit": facts.get("output_token_limit") or DEFAULT_OUTPUT_TOKENS,
        "supportedGenerationMethods": _list_methods(model),
    }
