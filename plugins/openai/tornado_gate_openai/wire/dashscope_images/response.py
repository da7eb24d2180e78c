"""Response bodies: image URLs that are valid for 24 hours, usage, and the state of a task. Pure.

::

    {"output": {"choices": [{"message": {"content": [{"image": URL}, …]}}, …]}, "usage": {…}, "request_id": …}
    {"output": {"task_id": …, "task_status": "SUCCEEDED", "results": [{"url": URL} | {"code": …, "message": …}]}, …}

Source: https://www.alibabacloud.com/help/en/model-studio/qwen-image-api (choices),
https://docs.qwencloud.com/api-reference/image-generation/wan-text-to-image-v2/query-result ("wan2.6-t2i: output.choices; wan2.5
and earlier: output.results[].url", with orig_prompt and actual_prompt), /wan25-general-image-editing/query-result (a task has
succeeded when one of its pictures has), https://help.aliyun.com/zh/model-studio/developer-reference/manage-asynchronous-tasks
(states; a failed task has code and message in its output).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from tornado_gate.codec.counts import read_count
from tornado_gate.types import Usage
from tornado_gate.types.value import Value

WAITING_STATUSES: Final = frozenset({"PENDING", "RUNNING", "SUSPENDED"})


class ImageLocation(Value, frozen=True, kw_only=True):
    """The URL of a generated image, and the rewritten prompt if the vendor reports one."""

    url: str
    revised_prompt: str | None = None


class FailureReport(Value, frozen=True, kw_only=True):
    """Code and message of a failed image or task."""

    code: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageResponse:
    """A parsed response. `size` is "1024x768" if the vendor reports it; `text` is the text beside the images."""

    pictures: tuple[ImageLocation, ...] = ()
    faults: tuple[FailureReport, ...] = ()
    usage: Usage | None = None
    size: str | None = None
    text: str | None = None
    request_id: str | None = field(default=None, compare=False)


class ImageTask(Value, frozen=True, kw_only=True):
    """The state of a task. `fault` is set when it failed or was rejected."""

    id: str
    status: str
    fault: FailureReport | None = None

    @property
    def is_waiting(self) -> bool:
        """Return whether the task is unfinished, so that it must be polled again."""
        return self.status in WAITING_STATUSES


def parse_response(body: Any) -> ImageResponse:
    """The content of a response of either kind. An empty response has neither images nor faults."""
    top = _read_object(body)
    output, usage = _read_object(top.get("output")), _read_object(top.get("usage"))
    pictures, faults, texts = list[ImageLocation](), list[FailureReport](), list[str]()
    for item in _iterate_contents(output):
        if isinstance(item.get("image"), str):
            pictures.append(ImageLocation(url=item["image"]))
        elif isinstance(item.get("text"), str):
            texts.append(item["text"])
    for item in _iterate_objects(output.get("results")):
        if isinstance(item.get("url"), str):
            pictures.append(
                ImageLocation(url=item["url"], revised_prompt=_read_string(item.get("actual_prompt")) or None)
            )
        else:
            faults.append(_parse_failure(item))
    for where in (output, top):
        if where.get("code"):
            faults.append(_parse_failure(where))
    return ImageResponse(
        pictures=tuple(pictures),
        faults=tuple(faults),
        usage=_parse_usage(usage),
        size=_parse_size(usage),
        text="".join(texts) or None,
        request_id=_read_string(top.get("request_id")) or None,
    )


def parse_task(body: Any) -> ImageTask:
    """The state of a task, from the creation response or from polling; "" when the response has no state."""
    top = _read_object(body)
    output = _read_object(top.get("output"))
    faulty = output if output.get("code") else top
    return ImageTask(
        id=_read_string(output.get("task_id")),
        status=_read_string(output.get("task_status")).upper(),
        fault=_parse_failure(faulty) if faulty.get("code") else None,
    )


def _iterate_contents(output: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    for choice in _iterate_objects(output.get("choices")):
        yield from _iterate_objects(_read_object(choice.get("message")).get("content"))


def _parse_usage(usage: Mapping[str, Any]) -> Usage | None:
    """Return the tokens if the vendor reports them; images and pixels in `extra`."""
    if not usage:
        return None
    counted = ("input_tokens", "output_tokens", "total_tokens")
    return Usage(
        input_tokens=_read_count(usage.get("input_tokens")),
        output_tokens=_read_count(usage.get("output_tokens")),
        extra={name: value for name, value in usage.items() if name not in counted},
    )


def _parse_size(usage: Mapping[str, Any]) -> str | None:
    if size := _read_string(usage.get("size")):
        return size.replace("*", "x")
    width, height = _read_count(usage.get("width")), _read_count(usage.get("height"))
    return f"{width}x{height}" if width and height else None


def _parse_failure(value: Mapping[str, Any]) -> FailureReport:
    return FailureReport(code=_read_string(value.get("code")), message=_read_string(value.get("message")))


def _read_object(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _iterate_objects(value: Any) -> Iterator[Mapping[str, Any]]:
    if isinstance(value, list):
        yield from (item for item in value if isinstance(item, Mapping))


def _read_string(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _read_count(value: Any) -> int | None:
    return read_count(value)
