"""The upstream's base URL with exactly one version part, and the path of each of its APIs. Pure.

Source: https://www.alibabacloud.com/help/en/model-studio/qwen-image-api (Singapore dashscope-intl.aliyuncs.com, Beijing
dashscope.aliyuncs.com, Virginia dashscope-us.aliyuncs.com; an API key is valid in one region), /text-to-image-v2-api-reference,
/wan2-5-image-edit-api-reference, and https://docs.qwencloud.com/api-reference/image-generation/wan-text-to-image-v2/create-task
for the path of each model.
"""

from __future__ import annotations

import re
from typing import Final

from tornado_gate import ProviderEntry
from tornado_gate.errors import ConfigError, UpstreamError
from tornado_gate.http.base_url import normalize_base_url

DEFAULT_BASE_URL: Final = "https://dashscope-intl.aliyuncs.com"

GENERATION_PATH: Final = "services/aigc/multimodal-generation/generation"
MESSAGES_TASK_PATH: Final = "services/aigc/image-generation/generation"
PROMPT_TASK_PATH: Final = "services/aigc/text2image/image-synthesis"
IMAGES_TASK_PATH: Final = "services/aigc/image2image/image-synthesis"

_COMPATIBLE_SEGMENT: Final = "compatible-mode"
_TASK_ID: Final = re.compile(r"[A-Za-z0-9_-]{1,128}")


def choose_base_url(entry: ProviderEntry) -> str:
    """Return the configured base URL, or the vendor's in Singapore, with ``/api/v1`` once. Raises ConfigError."""
    base_url = normalize_base_url(entry.base_url, "api/v1", default=DEFAULT_BASE_URL)
    if _COMPATIBLE_SEGMENT in base_url.split("/"):
        fault = (
            f"must not be the OpenAI-compatible URL ('{_COMPATIBLE_SEGMENT}'), which has no image tasks; use '/api/v1'"
        )
        raise ConfigError([(("base_url",), fault)])
    return base_url


def build_task_url(base_url: str, task_id: str, *, cancel: bool = False) -> str:
    """Return the URL to poll or cancel a task. Raises UpstreamError for an id that would change the path."""
    if not _TASK_ID.fullmatch(task_id):
        raise UpstreamError("The upstream created a task without a valid id, so it cannot be polled.")
    return f"{base_url}/tasks/{task_id}" + ("/cancel" if cancel else "")
