"""How long a response may be is estimated from the members with which each wire format limits it."""

from __future__ import annotations

from typing import Any

import pytest

from tornado_gate.admission.estimates import estimate_request
from tornado_gate.types import Route
from tornado_gate.wire import answer_sizes


@pytest.mark.parametrize(
    ("sizes", "body", "tokens"),
    [
        (answer_sizes.CHAT, {"max_tokens": 100}, 100),
        (answer_sizes.CHAT, {"max_completion_tokens": 100, "n": 8}, 800),
        (answer_sizes.COMPLETIONS, {"max_tokens": 100, "n": 2, "best_of": 5}, 500),
        (answer_sizes.RESPONSES, {"max_output_tokens": 100}, 100),
        (answer_sizes.MESSAGES, {"max_tokens": 100}, 100),
        (answer_sizes.GENERATE, {"generationConfig": {"maxOutputTokens": 100, "candidateCount": 4}}, 400),
        (answer_sizes.GENERATE, {"generation_config": {"max_output_tokens": 100, "candidate_count": 4}}, 400),
    ],
)
def test_the_limit_of_each_format_is_found(sizes: dict[str, Any], body: dict[str, Any], tokens: int) -> None:
    route = Route("POST", "/plain", "chat", **sizes)
    estimate = estimate_request("chat", route, body, 7)
    assert [each.output_tokens for each in estimate.list_quantities(1000)] == [tokens, tokens]
