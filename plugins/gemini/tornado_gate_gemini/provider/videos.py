"""Videos at the Gemini API: a long-running operation that is polled, and files whose download needs the API key.

The wire format is in `tornado_gate_gemini.wire.videos`; this module has the URLs. The API cannot cancel an operation:
https://ai.google.dev/api/models lists get and list for `models.operations`. The upstream returns the URL of a file, which may
redirect; the core sends the key only to the entry's own host.

Source: https://ai.google.dev/gemini-api/docs/video; google-genai 3.4, operations.py, files.py (download) and _transformers.py
(t_file_name: a file is fetched from the client's own base URL, by the name in its URL).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlsplit

from tornado_gate.errors import UnsupportedOperation, UpstreamRefused
from tornado_gate.http.base_url import is_same_origin
from tornado_gate.http.fetch.pictures import read_image
from tornado_gate.types import (
    Call,
    Data,
    UpstreamRequest,
    UpstreamResponse,
    VideoCancel,
    VideoDownload,
    VideoPoll,
    VideoRequest,
)
from tornado_gate_gemini.provider.address import DEFAULT_BASE_URL, build_resource_url, build_url
from tornado_gate_gemini.wire.generate import encode_in_slices
from tornado_gate_gemini.wire.videos import render_video_request

AnyVideo = VideoRequest | VideoPoll | VideoDownload | VideoCancel

BEGIN_METHOD: Final = "predictLongRunning"
MAX_REDIRECTS: Final = 3
VIDEO_TYPE_PREFIXES: Final = ("video/",)

GONE_STATUSES: Final = frozenset({404, 410})
"""The statuses that mean that the operation does not exist."""
_FILE_PATH: Final = re.compile(r"/files/([a-z0-9-]+):download")


async def build_request(call: Call, request: AnyVideo, headers: Mapping[str, str]) -> UpstreamRequest:
    """The outgoing request; `headers` contain the API key. Reports unsupported fields to `call.drop_field`.

    Raises UnsupportedOperation for what the API lacks: cancel, remix, and finding an operation without its name.
    """
    plain = {name: value for name, value in headers.items() if name != "content-type"}
    base_url = call.target.base_url
    match request:
        case VideoRequest(remix_of=None):
            body = render_video_request(call, request, await _read_image(call, request))
            return UpstreamRequest(
                url=build_url(base_url, call.target.upstream_model, BEGIN_METHOD), headers=headers, json=body
            )
        case VideoPoll(operation=Mapping() as operation):
            url = build_resource_url(base_url, _get_name(operation))
            return UpstreamRequest(method="GET", url=url, headers=plain, accepted_statuses=GONE_STATUSES)
        case VideoDownload(operation=operation, index=index):
            url = build_file_url(base_url, _get_address(operation, index))
            return UpstreamRequest(
                method="GET",
                url=url,
                headers=plain if is_same_origin(url, base_url) else {},
                redirects=MAX_REDIRECTS,
                file_types=VIDEO_TYPE_PREFIXES,
            )
        case VideoRequest():
            raise UnsupportedOperation(
                f"The model '{call.model}' does not support remixing an earlier video. Create a new one instead."
            )
    raise UnsupportedOperation(
        f"The provider '{call.target.provider}' cannot cancel videos or find one without its operation name."
    )


async def _read_image(call: Call, request: VideoRequest) -> Data | None:
    if request.image is None:
        return None
    picture = await read_image(call, request.image, request.field_name("image"))
    return Data(media_type=picture.media_type, base64=await encode_in_slices(picture.data))


def _get_name(operation: Mapping[str, Any]) -> str:
    """The operation's name; "" for an operation of another provider, which is rejected as a resource name."""
    name = operation.get("name")
    return name if isinstance(name, str) else ""


def _get_address(operation: Mapping[str, Any], index: int) -> str:
    videos = operation.get("videos")
    if not isinstance(videos, list) or not 0 <= index < len(videos) or not isinstance(videos[index], str):
        raise UpstreamRefused(
            "The upstream's operation has no video with this index.", status=404, code="video_not_found"
        )
    return str(videos[index])


def build_file_url(base_url: str, address: str) -> str:
    """The download URL. For a file at Google's own host, it is the URL at the entry's proxy in front of Google."""
    match = _FILE_PATH.search(urlsplit(address).path)
    if match is None or is_same_origin(address, base_url) or not is_same_origin(address, DEFAULT_BASE_URL):
        return address
    return f"{base_url}/files/{match[1]}:download?alt=media"


def is_lost(request: AnyVideo, incoming: UpstreamResponse) -> bool:
    """Return whether the response means that the operation does not exist."""
    return isinstance(request, VideoPoll) and incoming.status in GONE_STATUSES
