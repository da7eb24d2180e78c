"""The facts in which models with this format differ; the provider has them from its table. Pure."""

from __future__ import annotations

from typing import Literal

from tornado_gate.wire.model_features import ChatFeatures, SchemaDialect

GeminiOperation = Literal["chat", "count_tokens", "embeddings", "image_edits", "images", "speech", "videos"]


class GeminiModelFeatures(ChatFeatures, frozen=True, kw_only=True):
    """Facts about one upstream model. The defaults fit the newest family, except for limits.

    `schema`: "json" and "inlined" are sent as ``parametersJsonSchema`` and ``responseJsonSchema``, "openapi" as the older
    subset. `thinking_levels`: thinking is set as a level (Gemini 3), not as a budget in tokens (Gemini 2.5). `least_budget` and
    `most_budget` bound a budget; with `budget_off` 0 switches thinking off. `signature_dummy`: the model rejects the first call
    of a step without a thought signature, except with the documented dummy value. `tools_with_format`: it accepts tools and a
    response format in one request. `parts_in_results`: it accepts images and files inside a function response. `operations`:
    its operations; `predict`: an image model with the method ``:predict``; `resolutions`: it makes images of more than 1K.
    `styles`: a speech model that has a member for the style. `logprobs`: it returns log probabilities.
    """

    most_stops: int | None = 5
    schema: SchemaDialect = "inlined"
    thinking_levels: bool = True
    least_budget: int = 0
    most_budget: int | None = None
    budget_off: bool = True
    signature_dummy: bool = False
    tools_with_format: bool = True
    parts_in_results: bool = True
    predict: bool = False
    operations: tuple[GeminiOperation, ...] = ("chat", "count_tokens")
    resolutions: bool = True
    styles: bool = True
    logprobs: bool = True


MODERN_FEATURES = GeminiModelFeatures()
