"""Small blocking HTTP calls to the control URLs of child processes; proxies from the environment are not used."""

from __future__ import annotations

import json
import urllib.request
from typing import Any

_direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def call(method: str, url: str, body: Any = None, *, key: str = "", seconds: float = 60) -> Any:
    """Send `body` as JSON (None: no body) and return the JSON response. Raises urllib.error.HTTPError from status 400 on."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data=data, method=method, headers={"Content-Type": "application/json"})
    if key:
        request.add_header("Authorization", f"Bearer {key}")
    with _direct.open(request, timeout=seconds) as answer:
        return json.loads(answer.read() or b"null")
