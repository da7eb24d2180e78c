"""Where the upstream is, and which address each kind of video has there. Pure.

Source: https://app.klingai.com/global/dev/document-api/apiReference/commonInfo (api-singapore.klingai.com outside of China,
api-beijing.klingai.com inside; api.klingai.com is the name of before), …/model/textToVideo and …/model/imageToVideo: a task is
asked about by the vendor's id or by the name that the caller gave it, either of them as the last segment of the path.
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
    """Where a video of this kind is begun."""
    return f"{base_url}/videos/{kind}"


def build_task_url(base_url: str, kind: Kind, name: str) -> str:
    """Where a task is asked about, by the vendor's id or by the name that it was given."""
    return f"{build_creation_url(base_url, kind)}/{quote(name, safe='')}"
