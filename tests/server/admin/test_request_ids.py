"""The id that a caller chooses for a request shadows no request of others, and comes back to the caller as it was."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.support.gateway import Gateway

ROOT, VICTIM, MALLORY = ("root-key-of-ids-0123", "victim-key-of-ids-0123", "mallory-key-of-ids-0123")
CONF = f"""
plugins: {{local: true}}
providers: {{local: {{plugin: local}}}}
models: {{local-chat: {{provider: local}}, other: {{provider: local, model: local-chat}}}}
keys:
  - {{name: root, key: {ROOT}, role: administrator}}
  - {{name: victim, key: {VICTIM}}}
  - {{name: mallory, key: {MALLORY}}}
"""


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    started = Gateway.start(CONF, tmp_path_factory.mktemp("ids"))
    yield started
    started.stop()


def chat(gateway: Gateway, key: str, model: str, request_id: str = "") -> str:
    headers = {"Authorization": f"Bearer {key}", **({"X-Request-Id": request_id} if request_id else {})}
    body = {"model": model, "messages": [{"role": "user", "content": "Hi"}]}
    response = httpx.post(f"{gateway.url}/v1/chat/completions", json=body, headers=headers, trust_env=False, timeout=30)
    assert response.status_code == 200, response.text
    return response.headers["x-request-id"]


def look(gateway: Gateway, path: str) -> httpx.Response:
    headers = {"Authorization": f"Bearer {ROOT}"}
    return httpx.get(f"{gateway.url}/admin/v1/{path}", headers=headers, trust_env=False, timeout=30)


def wait_for_rows(gateway: Gateway, count: int, **filters: str) -> list[dict[str, Any]]:
    """The rows, when the ledger has written them."""
    query = "&".join(f"{name}={value}" for name, value in filters.items())
    rows: list[dict[str, Any]] = []
    while len(rows) < count:
        rows = look(gateway, f"requests?{query}").json()["data"]
    return rows


def test_an_id_that_another_caller_repeats_shows_neither_request_as_the_other(gateway: Gateway) -> None:
    made = chat(gateway, VICTIM, "local-chat")
    [own] = wait_for_rows(gateway, 1, request_id=made)
    assert look(gateway, f"requests/{made}").json() == own
    assert chat(gateway, MALLORY, "other", made) == made
    assert chat(gateway, MALLORY, "other", own["id"]) == own["id"]
    rows = wait_for_rows(gateway, 2, request_id=made)
    assert [(row["key_name"], row["model"]) for row in rows] == [("mallory", "other"), ("victim", "local-chat")]
    wait_for_rows(gateway, 1, request_id=own["id"])
    refused = look(gateway, f"requests/{made}")
    assert (refused.status_code, refused.json()["error"]["code"]) == (409, "ambiguous_request_id")
    assert f"request_id={made}" in refused.json()["error"]["message"]
    for row in rows:
        assert look(gateway, f"requests/{row['id']}").json() == row
    assert look(gateway, "requests/req-of-nobody").status_code == 404
