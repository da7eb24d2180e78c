"""What the vendor answers: pictures at addresses that hold for 24 hours, usage, the state of a task. Pure.

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

from tornado_gate.types import Usage
from tornado_gate.types.value import Value

WAITING: Final = frozenset({"PENDING", "RUNNING", "SUSPENDED"})


class Found(Value, frozen=True, kw_only=True):
    """A picture that was made: where it is, and what the vendor made of the prompt when it says so."""

    url: str
    revised_prompt: str | None = None


class Fault(Value, frozen=True, kw_only=True):
    """Why there is none, in the vendor's words."""

    code: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """All of an answer. `size` is "1024x768" when the vendor says it; `text` what it wrote beside the pictures."""

    pictures: tuple[Found, ...] = ()
    faults: tuple[Fault, ...] = ()
    usage: Usage | None = None
    size: str | None = None
    text: str | None = None
    request_id: str | None = field(default=None, compare=False)


class Task(Value, frozen=True, kw_only=True):
    """A task as it stands. `fault` is there when it failed or cannot be."""

    id: str
    status: str
    fault: Fault | None = None

    @property
    def waiting(self) -> bool:
        """Whether asking again may bring more."""
        return self.status in WAITING


def parse_response(body: Any) -> Answer:
    """What is in an answer, of either kind. One that holds nothing has neither pictures nor faults."""
    top = _object(body)
    output, usage = _object(top.get("output")), _object(top.get("usage"))
    pictures, faults, texts = list[Found](), list[Fault](), list[str]()
    for item in _contents(output):
        if isinstance(item.get("image"), str):
            pictures.append(Found(url=item["image"]))
        elif isinstance(item.get("text"), str):
            texts.append(item["text"])
    for item in _objects(output.get("results")):
        if isinstance(item.get("url"), str):
            pictures.append(Found(url=item["url"], revised_prompt=_string(item.get("actual_prompt")) or None))
        else:
            faults.append(_fault(item))
    for where in (output, top):
        if where.get("code"):
            faults.append(_fault(where))
    return Answer(
        pictures=tuple(pictures),
        faults=tuple(faults),
        usage=_usage(usage),
        size=_size(usage),
        text="".join(texts) or None,
        request_id=_string(top.get("request_id")) or None,
    )


def parse_task(body: Any) -> Task:
    """The state of a task, of the answer that made it or of one about it; "" is a state that was not said."""
    top = _object(body)
    output = _object(top.get("output"))
    faulty = output if output.get("code") else top
    return Task(
        id=_string(output.get("task_id")),
        status=_string(output.get("task_status")).upper(),
        fault=_fault(faulty) if faulty.get("code") else None,
    )


def _contents(output: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    for choice in _objects(output.get("choices")):
        yield from _objects(_object(choice.get("message")).get("content"))


def _usage(usage: Mapping[str, Any]) -> Usage | None:
    """Tokens where the vendor counts them, pictures and pixels in `extra`."""
    if not usage:
        return None
    counted = ("input_tokens", "output_tokens", "total_tokens")
    return Usage(
        input_tokens=_count(usage.get("input_tokens")),
        output_tokens=_count(usage.get("output_tokens")),
        extra={name: value for name, value in usage.items() if name not in counted},
    )


def _size(usage: Mapping[str, Any]) -> str | None:
    if size := _string(usage.get("size")):
        return size.replace("*", "x")
    width, height = _count(usage.get("width")), _count(usage.get("height"))
    return f"{width}x{height}" if width and height else None


def _fault(value: Mapping[str, Any]) -> Fault:
    return Fault(code=_string(value.get("code")), message=_string(value.get("message")))


def _object(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _objects(value: Any) -> Iterator[Mapping[str, Any]]:
    if isinstance(value, list):
        yield from (item for item in value if isinstance(item, Mapping))


def _string(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _count(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None
