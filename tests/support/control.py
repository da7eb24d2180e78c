"""Small blocking HTTP calls to the children's control addresses, past any proxy that the environment names."""

from __future__ import annotations

import json
import urllib.request
from typing import Any

_direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def call(method: str, url: str, body: Any = None, *, key: str = "", seconds: float = 20) -> Any:
    """Send `body` as JSON (None: no body), return the JSON of the answer. Raises urllib.error.HTTPError from 400 on."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data=data, method=method, headers={"Content-Type": "application/json"})
    if key:
        request.add_header("Authorization", f"Bearer {key}")
    with _direct.open(request, timeout=seconds) as answer:
        return json.loads(answer.read() or b"null")
