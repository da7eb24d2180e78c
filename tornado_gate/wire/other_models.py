"""The paths at which bodies and messages name further models besides the model of the request, for `Route.other_models`.

Names of members are in lower case without underscores, as both spellings of Google's API are; ``*`` is each member of a list.

Sources: openai-python 3.52, types/responses/tool_param.py (`ImageGeneration.model`, `ImageGenerationSvg.model`),
types/responses/response_tool_search_output_item_param_param.py, types/responses/response_create_params.py and
types/chat/completion_create_params.py (`Moderation.model`), types/image_generate_params.py (`Svg.model`),
types/realtime/audio_transcription_param.py; anthropic-sdk-python, types/beta/beta_advisor_tool_20260301_param.py and
beta_fallback_param.py; google-genai, types.py (`RagRetrievalConfigRankingLlmRanker`, `RagRetrievalConfigRankingRankService`,
`GenerationConfigRoutingConfigManualRoutingMode`, `EmbedContentBatch`) and its interactions' agent configurations; OpenRouter's
pages "Auto Router" and "Fusion Router" (plugins and server tools of compatible upstreams).
"""

from __future__ import annotations

from typing import Final

_TOOL_MODELS: Final = ("model", "svg.model", "parameters.model", "parameters.models", "parameters.analysismodels")
_TOOLS: Final = tuple(f"tools.*.{member}" for member in _TOOL_MODELS)
_ROUTERS: Final = ("plugins.*.model", "plugins.*.models", "plugins.*.analysismodels", "plugins.*.allowedmodels")

CHAT: Final = (*_TOOLS, *_ROUTERS, "moderation.model")
RESPONSES: Final = (*CHAT, *(f"input.*.{path}" for path in _TOOLS))
IMAGES: Final = ("svg.model",)
MESSAGES: Final = ("tools.*.model", "fallbacks.*.model")
REALTIME: Final = (
    "session.model",
    "session.audio.input.transcription.model",
    "session.inputaudiotranscription.model",
    *(f"session.{path}" for path in _TOOLS),
    "response.model",
    *(f"response.{path}" for path in _TOOLS),
)
_RANKING: Final = "tools.*.retrieval.vertexragstore.ragretrievalconfig.ranking"
GENERATE: Final = (
    "generationconfig.routingconfig.manualmode.modelname",
    f"{_RANKING}.llmranker.modelname",
    f"{_RANKING}.rankservice.modelname",
)
COUNT: Final = ("generatecontentrequest.model", *(f"generatecontentrequest.{path}" for path in GENERATE))
EMBEDDINGS: Final = ("requests.*.model",)
INTERACTIONS: Final = ("agent", "agentconfig.model", "tools.*.model")
