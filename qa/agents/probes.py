"""What agents ask beside the conversation, asked directly: the base URL, model lists and token counts, with each upstream."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import httpx

from qa.agents.site import KEY, MODELS, UPSTREAMS, Site
from qa.agents.upstream_server import COUNTED

COUNTING = ("anthropic", "gemini")
"""Upstreams with a route for token counts; the gateway estimates for the others."""


@dataclass(frozen=True, slots=True)
class Probe:
    """`fault` is "" when the answer was as it must be."""

    request: str
    answer: str
    fault: str


def probe(site: Site) -> Iterator[Probe]:
    """Ask everything."""
    with httpx.Client(base_url=site.url, trust_env=False, timeout=60) as client:
        for method in ("HEAD", "GET"):
            response = client.request(method, "/")
            fault = (
                ""
                if response.status_code == 200 and (method == "GET" or not response.content)
                else response.text or "?"
            )
            yield Probe(f"`{method} /` without a key", str(response.status_code), fault)
        yield from _list_models(client)
        for upstream in UPSTREAMS:
            yield from _count(client, upstream)


def _list_models(client: httpx.Client) -> Iterator[Probe]:
    names = set(MODELS[""].values())
    anthropic = {"x-api-key": KEY, "anthropic-version": "2023-06-01"}
    lists: list[tuple[str, dict[str, str], str, str]] = [
        ("/v1/models", {"authorization": f"Bearer {KEY}"}, "data", "id"),
        ("/v1/models?limit=1000", anthropic, "data", "id"),
        ("/v1beta/models", {"x-goog-api-key": KEY}, "models", "name"),
    ]
    for path, headers, member, name in lists:
        response = client.get(path, headers=headers)
        found = {one[name].removeprefix("models/") for one in response.json().get(member, ())}
        fault = "" if names <= found else f"missing: {names - found}"
        yield Probe(f"`GET {path}` with `{next(iter(headers))}`", f"{response.status_code}, {len(found)} models", fault)


def _count(client: httpx.Client, upstream: str) -> Iterator[Probe]:
    model = MODELS[""][upstream]
    message = {"role": "user", "content": "Count this."}
    anthropic: dict[str, Any] = {"model": model, "messages": [message]}
    gemini: dict[str, Any] = {"contents": [{"role": "user", "parts": [{"text": "Count this."}]}]}
    asked = [
        (
            "/v1/messages/count_tokens?beta=true",
            anthropic,
            {"anthropic-version": "2023-06-01", "x-api-key": KEY},
            "input_tokens",
        ),
        (f"/v1beta/models/{model}:countTokens", gemini, {"x-goog-api-key": KEY}, "totalTokens"),
    ]
    for path, body, headers, member in asked:
        response = client.post(path, json=body, headers=headers)
        count, estimate = response.json().get(member), response.headers.get("x-gate-estimate")
        wanted = None if upstream in COUNTING else "input_tokens"
        right = response.status_code == 200 and estimate == wanted and (count == COUNTED or (estimate and count > 0))
        answer = f"{response.status_code}, {count}{' (estimate)' if estimate else ''}"
        yield Probe(
            f"`POST {path.partition('?')[0]}`, upstream {upstream}", answer, "" if right else response.text[:200]
        )
