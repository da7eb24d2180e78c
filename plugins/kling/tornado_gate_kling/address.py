"""The upstream's base URL, and the URL of each kind of video. Pure.

Source: https://app.klingai.com/global/dev/document-api/apiReference/commonInfo (api-singapore.klingai.com outside of China,
api-beijing.klingai.com inside; api.klingai.com is the former name), …/model/textToVideo and …/model/imageToVideo: a task is
polled by the vendor's id or by the caller's external id, either as the last path segment.
"""

from __future__ import annotations

from typing import Final, Literal
from urllib.parse import quote

DEFAULT_BASE_URL: Final = "https://api-singapore.klingai.com"

Kind = Literal["text2video", "image2video"]
TEXT_KIND: Final = "text2video"
IMAGE_KIND: Final = "image2video"
KINDS: Final[tuple[Kind, ...]] = (TEXT_KIND, IMAGE_KIND)


def build_creation_url(base_url: str, kind: Kind) -> str:
    """Return the URL that creates a video of this kind."""
    return f"{base_url}/videos/{kind}"


def build_task_url(base_url: str, kind: Kind, name: str) -> str:
    """Return the URL of a task, by the vendor's id or by the external id."""
    return f"{build_creation_url(base_url, kind)}/{quote(name, safe='')}"
