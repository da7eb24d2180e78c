"""The download URL of a finished video, at the vendor's store. Requests to it must not carry the API key.

Source: https://app.klingai.com/global/dev/document-api/apiReference/model/textToVideo, `task_result.videos[].url`, which is on
another host than the API and is deleted after 30 days.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tornado_gate.errors import UpstreamError
from tornado_gate.http.base_url import is_same_origin
from tornado_gate.types import Call


def get_video_url(call: Call, operation: Mapping[str, Any], index: int) -> str:
    """Return the URL of video number `index`. Raises UpstreamError if there is none, and for another host without https."""
    provider, urls = call.target.provider, operation.get("urls")
    if not isinstance(urls, list) or not 0 <= index < len(urls):
        raise UpstreamError(
            f"The provider '{provider}' returned no video with index {index}.", code="upstream_no_video"
        )
    url = str(urls[index])
    if not url.startswith("https://") and not is_same_origin(url, call.target.base_url):
        raise UpstreamError(f"The provider '{provider}' returned a video URL that does not use https.")
    return url
