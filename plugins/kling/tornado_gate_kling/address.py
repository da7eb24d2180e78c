"""Where the upstream is, and which address each kind of video has there. Pure.

Source: https://app.klingai.com/global/dev/document-api/apiReference/commonInfo (api-singapore.klingai.com outside of China,
api-beijing.klingai.com inside; api.klingai.com is the name of before), …/model/textToVideo and …/model/imageToVideo: a task is
asked about by the vendor's id or by the name that the caller gave it, either of them as the last segment of the path.
"""

from __future__ import annotations

import re
from typing import Final, Literal
from urllib.parse import quote, urlsplit, urlunsplit

DEFAULT: Final = "https://api-singapore.klingai.com"

Kind = Literal["text2video", "image2video"]
TEXT: Final = "text2video"
IMAGE: Final = "image2video"
KINDS: Final[tuple[Kind, ...]] = (TEXT, IMAGE)

_VERSION: Final = re.compile(r"v[0-9]+", re.IGNORECASE)


def normalised(base_url: str) -> str:
    """`base_url`, or the vendor's in Singapore, without a slash at its end and with ``/v1`` once.

    Raises ValueError for what is no address to send keys to.
    """
    address = urlsplit((base_url or DEFAULT).strip())
    if address.scheme not in ("http", "https") or not address.hostname:
        raise ValueError(f"must be an http or https address such as {DEFAULT}")
    if address.query or address.fragment:
        raise ValueError("must end with its path: no '?' and no '#'")
    if address.username is not None or address.password is not None:
        raise ValueError("must hold no user and no password; the keys belong in api_key")
    segments = [segment for segment in address.path.split("/") if segment]
    if not segments or not _VERSION.fullmatch(segments[-1]):
        segments.append("v1")
    return urlunsplit((address.scheme, address.netloc, "/" + "/".join(segments), "", ""))


def begin_url(base_url: str, kind: Kind) -> str:
    """Where a video of this kind is begun."""
    return f"{base_url}/videos/{kind}"


def task_url(base_url: str, kind: Kind, name: str) -> str:
    """Where a task is asked about, by the vendor's id or by the name that it was given."""
    return f"{begin_url(base_url, kind)}/{quote(name, safe='')}"


def same_origin(url: str, base_url: str) -> bool:
    """Whether both are the same server, to which the entry's key may go."""
    one, other = urlsplit(url), urlsplit(base_url)
    return (one.scheme, one.netloc) == (other.scheme, other.netloc)
