"""What one upstream model takes of this format. Pure facts; who knows which model takes what is a provider's business."""

from __future__ import annotations

from tornado_gate.types.value import Value


class GeminiModelFeatures(Value, frozen=True, kw_only=True):
    """`json_schema`: takes JSON schemas as they are (``parametersJsonSchema``, ``responseJsonSchema``).

    `thinking_levels`: thinking is asked for in words (Gemini 3), not as a budget in tokens (Gemini 2.5).
    `signature_dummy`: refuses the first call of a step that has no thought signature, unless it has the documented dummy.
    `tools_with_format`: takes tools and a response format in one request.
    `parts_in_results`: takes pictures and files inside a function's response.
    """

    json_schema: bool = True
    thinking_levels: bool = True
    signature_dummy: bool = False
    tools_with_format: bool = True
    parts_in_results: bool = True


MODERN_FEATURES = GeminiModelFeatures()
