"""Where the upstream is: a base address with exactly one version part, and a path for each of its APIs. Pure.

Source: https://www.alibabacloud.com/help/en/model-studio/qwen-image-api (Singapore dashscope-intl.aliyuncs.com, Beijing
dashscope.aliyuncs.com, Virginia dashscope-us.aliyuncs.com; a key of one is unknown at another), /text-to-image-v2-api-reference,
/wan2-5-image-edit-api-reference, and https://docs.qwencloud.com/api-reference/image-generation/wan-text-to-image-v2/create-task
for which model has which path.
"""

from __future__ import annotations

import re
from typing import Final

from tornado_gate import ProviderEntry
from tornado_gate.errors import ConfigError, UpstreamError
from tornado_gate.http.base_url import normalize_base_url

DEFAULT: Final = "https://dashscope-intl.aliyuncs.com"

AT_ONCE: Final = "services/aigc/multimodal-generation/generation"
TASK_OF_MESSAGES: Final = "services/aigc/image-generation/generation"
TASK_OF_PROMPT: Final = "services/aigc/text2image/image-synthesis"
TASK_OF_PICTURES: Final = "services/aigc/image2image/image-synthesis"

_OTHER_API: Final = "compatible-mode"
_TASK_ID: Final = re.compile(r"[A-Za-z0-9_-]{1,128}")


def base_url_of(entry: ProviderEntry) -> str:
    """The base URL of a conf entry, or the vendor's in Singapore, with ``/api/v1`` once. Raises ConfigError."""
    base_url = normalize_base_url(entry.base_url, "api/v1", default=DEFAULT)
    if _OTHER_API in base_url.split("/"):
        fault = f"must not be the OpenAI-compatible one ('{_OTHER_API}'), which makes no pictures by task"
        raise ConfigError([(("base_url",), fault)])
    return base_url


def task_url(base_url: str, task_id: str, *, cancel: bool = False) -> str:
    """Where a task is asked about, or cancelled. Raises UpstreamError for an id that would lead to another path."""
    if not _TASK_ID.fullmatch(task_id):
        raise UpstreamError("The upstream made a task without an id that it could be asked by.")
    return f"{base_url}/tasks/{task_id}" + ("/cancel" if cancel else "")
