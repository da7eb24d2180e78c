"""The fields of ``POST /v1/completions``.

Source: openai-python 3.52, types/completion_create_params.py.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Final

from qa.matrix.fields import MODEL, Group, answer_only, row

BASE: Final[dict[str, Any]] = {"model": MODEL, "prompt": "Once upon a time"}

plain = partial(row, BASE)
saying = partial(row, {"model": MODEL, "prompt": "say one mark-stop two"})
streamed = partial(row, {**BASE, "stream": True})

GROUPS: Final = (
    Group(
        "The prompt",
        (
            plain("prompt", "mark-hello", "a string", instead="Once upon a time"),
            plain("prompt", ["mark-hello"], "one in an array", instead="Once upon a time"),
            plain("prompt", ["mark-one", "mark-two"], "several", instead="Once upon a time"),
            plain("prompt", [1, 2, 3], "tokens", instead="Once upon a time"),
            plain("suffix", "mark-end"),
        ),
    ),
    Group(
        "Length and sampling",
        (
            plain("max_tokens", 2),
            plain("temperature", 0.5),
            plain("top_p", 0.5),
            plain("n", 2),
            plain("best_of", 3),
            saying("stop", "mark-stop", "a string"),
            saying("stop", ["mark-stop", "mark-end"], "an array"),
            plain("seed", 7),
            plain("presence_penalty", 0.5),
            plain("frequency_penalty", 0.5),
            plain("logit_bias", {"50256": -100}),
            plain("logprobs", 2),
        ),
    ),
    Group(
        "The answer",
        (
            plain("echo", True, idle=answer_only("the gateway itself puts the prompt before the answer")),
            plain("stream", True),
            streamed(
                "stream_options.include_usage",
                True,
                idle=answer_only(
                    "usage is requested from the upstream for every stream, and shown to callers that request it"
                ),
            ),
            streamed("stream_options.include_obfuscation", False),
            plain("user", "mark-user"),
        ),
    ),
)
