"""Where the upstream is: a base address with exactly one version part, and a path for each of its APIs. Pure.

Source: https://www.alibabacloud.com/help/en/model-studio/qwen-image-api (Singapore dashscope-intl.aliyuncs.com, Beijing
dashscope.aliyuncs.com, Virginia dashscope-us.aliyuncs.com; a key of one is unknown at another), /text-to-image-v2-api-reference,
/wan2-5-image-edit-api-reference, and https://docs.qwencloud.com/api-reference/image-generation/wan-text-to-image-v2/create-task
for which model has which path.
"""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import urlsplit, urlunsplit

from tornado_gate.errors import UpstreamError

DEFAULT: Final = "https://dashscope-intl.aliyuncs.com"

AT_ONCE: Final = "services/aigc/multimodal-generation/generation"
TASK_OF_MESSAGES: Final = "services/aigc/image-generation/generation"
TASK_OF_PROMPT: Final = "services/aigc/text2image/image-synthesis"
TASK_OF_PICTURES: Final = "services/aigc/image2image/image-synthesis"

_VERSION: Final = re.compile(r"v[0-9]+", re.IGNORECASE)
_OTHER_API: Final = "compatible-mode"
_TASK_ID: Final = re.compile(r"[A-Za-z0-9_-]{1,128}")


def normalised(base_url: str) -> str:
    """`base_url`, or the vendor's in Singapore, without a slash at its end and with ``/api/v1`` once.

    Raises ValueError for what is no address to send keys to.
    """
    address = urlsplit((base_url or DEFAULT).strip())
    if address.scheme not in ("http", "https") or not address.hostname:
        raise ValueError("must be an http or https address such as https://dashscope.aliyuncs.com")
    if address.query or address.fragment:
        raise ValueError("must end with its path: no '?' and no '#'")
    if address.username is not None or address.password is not None:
        raise ValueError("must hold no user and no password; the key belongs in api_key")
    segments = [segment for segment in address.path.split("/") if segment]
    if _OTHER_API in segments:
        raise ValueError(f"must not be the OpenAI-compatible one ('{_OTHER_API}'), which makes no pictures by task")
    if not any(_VERSION.fullmatch(segment) for segment in segments):
        segments += ["v1"] if segments[-1:] == ["api"] else ["api", "v1"]
    return urlunsplit((address.scheme, address.netloc, "/" + "/".join(segments), "", ""))


def task_url(base_url: str, task_id: str, *, cancel: bool = False) -> str:
    """Where a task is asked about, or cancelled. Raises UpstreamError for an id that would lead to another path."""
    if not _TASK_ID.fullmatch(task_id):
        raise UpstreamError("The upstream made a task without an id that it could be asked by.")
    return f"{base_url}/tasks/{task_id}" + ("/cancel" if cancel else "")
