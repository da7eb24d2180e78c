"""A finished video: a file at the vendor's store, at an address that needs no key and must not get one.

Source: https://app.klingai.com/global/dev/document-api/apiReference/model/textToVideo, `task_result.videos[].url`, which is on
another host than the API and goes away after 30 days.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tornado_gate.errors import UpstreamError
from tornado_gate.http.base_url import is_same_origin
from tornado_gate.types import Call


def get_video_url(call: Call, operation: Mapping[str, Any], index: int) -> str:
    """The address of video number `index`. Raises UpstreamError where there is none, and for another host without https."""
    provider, urls = call.target.provider, operation.get("urls")
    if not isinstance(urls, list) or not 0 <= index < len(urls):
        raise UpstreamError(f"The provider '{provider}' gave no video {index + 1}.", code="upstream_no_video")
    url = str(urls[index])
    if not url.startswith("https://") and not is_same_origin(url, call.target.base_url):
        raise UpstreamError(f"The provider '{provider}' gave a video an address that is not https.")
    return url
