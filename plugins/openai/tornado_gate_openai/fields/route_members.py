"""Members of bodies that routes declare to the core: limits of the response, marks of signatures, and names of other models.

The paths in `*_MODELS` are where bodies and messages name models besides the model of the request. Names of members are in lower
case without underscores; ``*`` is each member of a list.

Sources: openai-python 3.52, types/responses/tool_param.py (`ImageGeneration.model`, `ImageGenerationSvg.model`),
types/responses/response_tool_search_output_item_param_param.py, types/responses/response_create_params.py and
types/chat/completion_create_params.py (`Moderation.model`), types/image_generate_params.py (`Svg.model`) and
types/realtime/audio_transcription_param.py; OpenRouter's pages "Auto Router" and "Fusion Router" (plugins and server tools of
compatible upstreams).
"""

from __future__ import annotations

from typing import Any, Final

_TOOL_MODELS: Final = ("model", "svg.model", "parameters.model", "parameters.models", "parameters.analysismodels")
_TOOLS: Final = tuple(f"tools.*.{member}" for member in _TOOL_MODELS)
_ROUTERS: Final = ("plugins.*.model", "plugins.*.models", "plugins.*.analysismodels", "plugins.*.allowedmodels")

CHAT_MODELS: Final = (*_TOOLS, *_ROUTERS, "moderation.model")
RESPONSE_MODELS: Final = (*CHAT_MODELS, *(f"input.*.{path}" for path in _TOOLS))
IMAGE_MODELS: Final = ("svg.model",)
REALTIME_MODELS: Final = (
    "session.model",
    "session.audio.input.transcription.model",
    "session.inputaudiotranscription.model",
    *(f"session.{path}" for path in _TOOLS),
    "response.model",
    *(f"response.{path}" for path in _TOOLS),
)

_SIGNATURE_MARKS: Final = (b"ignature", b"encrypted_content")
CHAT: Final[dict[str, Any]] = {
    "other_models": CHAT_MODELS,
    "answer_limits": ("max_tokens", "max_completion_tokens"),
    "answer_counts": ("n", "best_of"),
    "signature_marks": _SIGNATURE_MARKS,
}
COMPLETIONS: Final[dict[str, Any]] = {
    "other_models": CHAT_MODELS,
    "answer_limits": ("max_tokens",),
    "answer_counts": ("n", "best_of"),
}
RESPONSES: Final[dict[str, Any]] = {
    "other_models": RESPONSE_MODELS,
    "answer_limits": ("max_output_tokens",),
    "signature_marks": _SIGNATURE_MARKS,
}
