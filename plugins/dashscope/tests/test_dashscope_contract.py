"""The contract of providers."""

from __future__ import annotations

import json
from typing import Any, ClassVar

from dashscope_calls import BASE, PNG, make_request

import tornado_gate_dashscope as plugin
from tornado_gate import ProviderEntry
from tornado_gate.testing import KEY, FakeFetcher, ProviderContract
from tornado_gate.types import GeneratedImage, ImageResult, Usage

PICTURE = "https://pictures.test/1.png"
ANSWER = {
    "output": {"choices": [{"finish_reason": "stop", "message": {"content": [{"image": PICTURE}]}}]},
    "usage": {"image_count": 1, "width": 8, "height": 4},
}


class TestContract(ProviderContract):
    plugin = plugin
    entry = ProviderEntry(name="test", base_url=BASE, api_key=KEY)
    request = make_request()
    upstream_model = "qwen-image-plus"
    call_fields: ClassVar[dict[str, Any]] = {"operation": "images", "fetcher": FakeFetcher(files={PICTURE: PNG})}
    outgoing: ClassVar[Any] = {
        "model": "qwen-image-plus",
        "input": {"messages": [{"role": "user", "content": [{"text": "A cat"}]}]},
    }
    chunks = (json.dumps(ANSWER).encode(),)
    content_type = "application/json"
    events = (
        ImageResult(
            images=(GeneratedImage(data=PNG, media_type="image/png"),),
            usage=Usage(extra={"image_count": 1, "width": 8, "height": 4}),
            size="8x4",
        ),
    )
