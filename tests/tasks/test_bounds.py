"""Conf may widen and narrow what a request for a video may ask for."""

from __future__ import annotations

from pathlib import Path

import httpx

from tests.support.gateway import Gateway

CONF = """
plugins: {local: true}
providers: {local: {plugin: local}}
models: {local-video: {provider: local}}
videos: {bounds: {seconds: [2, 3], n: [1, 1]}}
keys: [{name: test, key: test-key-of-bounds}]
"""


def test_the_bounds_of_conf_hold_and_the_others_stay(tmp_path: Path) -> None:
    gateway = Gateway.start(CONF, tmp_path)

    def refused(**asked: int) -> str:
        body = {"model": "local-video", "prompt": "a fox", "width": 64, "height": 64, **asked}
        headers = {"authorization": "Bearer test-key-of-bounds"}
        response = httpx.post(f"{gateway.url}/v1/videos", json=body, headers=headers, trust_env=False)
        return "" if response.status_code == 200 else str(response.json()["error"]["param"])

    try:
        assert refused(duration=1) == "duration"
        assert refused(duration=4) == "duration"
        assert refused(duration=2, n=2) == "n"
        assert refused(duration=2, fps=61) == "fps"
        assert refused(duration=2) == ""
    finally:
        gateway.stop()
