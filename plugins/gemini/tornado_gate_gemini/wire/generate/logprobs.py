"""``logprobsResult`` and the common entries per token, in both directions. Pure.

Source: google-genai 3.4, types.LogprobsResult: the chosen candidate of each step, and the top candidates of each step.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from tornado_gate_gemini.wire.generate.json_values import read_object, read_objects, read_string


def parse_logprobs(result: Any) -> tuple[dict[str, Any], ...]:
    """Common entries: ``{"token", "logprob", "bytes", "top_logprobs"}``."""
    chosen = read_objects(read_object(result).get("chosenCandidates"))
    tops = read_objects(read_object(result).get("topCandidates"))
    return tuple(
        {
            **_parse_candidate(token),
            "top_logprobs": [_parse_candidate(top) for top in read_objects(tops[step].get("candidates"))],
        }
        if step < len(tops)
        else {**_parse_candidate(token), "top_logprobs": []}
        for step, token in enumerate(chosen)
    )


def _parse_candidate(candidate: Mapping[str, Any]) -> dict[str, Any]:
    token = read_string(candidate.get("token"))
    return {"token": token, "logprob": candidate.get("logProbability"), "bytes": list(token.encode())}


def render_logprobs(entries: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """The ``logprobsResult`` of common entries."""
    known = list(entries)
    return {
        "topCandidates": [
            {"candidates": [_render_candidate(top) for top in entry.get("top_logprobs") or ()]} for entry in known
        ],
        "chosenCandidates": [_render_candidate(entry) for entry in known],
    }


def _render_candidate(entry: Mapping[str, Any]) -> dict[str, Any]:
    return {"token": entry.get("token"), "logProbability": entry.get("logprob")}
