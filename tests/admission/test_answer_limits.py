"""The estimate of a response's length uses the members with which each route of the three vendors limits it."""

from __future__ import annotations

from typing import Any

import pytest

from tornado_gate.admission.estimates import estimate_request
from tornado_gate_anthropic import format as anthropic
from tornado_gate_gemini import format as gemini
from tornado_gate_openai import format as openai

ROUTES = {route.path: route for vendor in (openai, anthropic, gemini) for route in vendor.routes()}


@pytest.mark.parametrize(
    ("path", "body", "tokens"),
    [
        ("/v1/chat/completions", {"max_tokens": 100}, 100),
        ("/v1/chat/completions", {"max_completion_tokens": 100, "n": 8}, 800),
        ("/v1/completions", {"max_tokens": 100, "n": 2, "best_of": 5}, 500),
        ("/v1/responses", {"max_output_tokens": 100}, 100),
        ("/v1/responses/compact", {"max_output_tokens": 100}, 100),
        ("/v1/messages", {"max_tokens": 100}, 100),
        (
            "/v1beta/models/{model}:generateContent",
            {"generationConfig": {"maxOutputTokens": 100, "candidateCount": 4}},
            400,
        ),
        (
            "/v1/models/{model}:streamGenerateContent",
            {"generation_config": {"max_output_tokens": 100, "candidate_count": 4}},
            400,
        ),
        ("/v1beta/interactions", {"generation_config": {"max_output_tokens": 100}}, 100),
    ],
)
def test_the_limit_of_each_route_is_found(path: str, body: dict[str, Any], tokens: int) -> None:
    estimate = estimate_request("chat", ROUTES[path], body, 7)
    assert [quantities.output_tokens for quantities in estimate.list_quantities(1000)] == [tokens, tokens]
