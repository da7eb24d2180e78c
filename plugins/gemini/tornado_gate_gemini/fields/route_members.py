"""Members of bodies that routes declare to the core: limits of the response, marks of signatures, and names of other models.

The names in `*_MODELS` are in lower case without underscores, which is one form of both spellings of the API.

Sources: google-genai, types.py (`RagRetrievalConfigRankingLlmRanker`, `RagRetrievalConfigRankingRankService`,
`GenerationConfigRoutingConfigManualRoutingMode`, `EmbedContentBatch`) and its interactions' agent configurations.
"""

from __future__ import annotations

from typing import Any, Final

_RANKING: Final = "tools.*.retrieval.vertexragstore.ragretrievalconfig.ranking"
GENERATE_MODELS: Final = (
    "generationconfig.routingconfig.manualmode.modelname",
    f"{_RANKING}.llmranker.modelname",
    f"{_RANKING}.rankservice.modelname",
)
COUNT_MODELS: Final = (
    *GENERATE_MODELS,
    "generatecontentrequest.model",
    *(f"generatecontentrequest.{path}" for path in GENERATE_MODELS),
)
EMBEDDING_MODELS: Final = ("requests.*.model",)
INTERACTION_MODELS: Final = ("agent", "agentconfig.model", "tools.*.model")

_CONFIGS: Final = ("generationConfig", "generation_config")
GENERATE: Final[dict[str, Any]] = {
    "answer_limits": tuple(
        f"{config}.{name}" for config in _CONFIGS for name in ("maxOutputTokens", "max_output_tokens")
    ),
    "answer_counts": tuple(f"{config}.{name}" for config in _CONFIGS for name in ("candidateCount", "candidate_count")),
    "signature_marks": (b"ignature", b"encrypted_content"),
}
