"""The features of this format that one upstream model supports; the provider knows them by model name. Pure."""

from __future__ import annotations

from tornado_gate.types.value import Value


class GeminiModelFeatures(Value, frozen=True, kw_only=True):
    """`json_schema`: accepts unmodified JSON schemas (``parametersJsonSchema``, ``responseJsonSchema``).

    `thinking_levels`: thinking is set as a level (Gemini 3), not as a budget in tokens (Gemini 2.5).
    `signature_dummy`: rejects the first call of a step without a thought signature, except with the documented dummy value.
    `tools_with_format`: accepts tools and a response format in one request.
    `parts_in_results`: accepts images and files inside a function response.
    """

    json_schema: bool = True
    thinking_levels: bool = True
    signature_dummy: bool = False
    tools_with_format: bool = True
    parts_in_results: bool = True


MODERN_FEATURES = GeminiModelFeatures()
