"""The declaration for ``tornado-gate plugins check dashscope``: the vendor's responses, synchronous and by tasks.

Source: the pages that `tornado_gate_dashscope.tasks` and `tornado_gate_openai.wire.dashscope_images` name.
"""

from __future__ import annotations

from typing import Any

from tornado_gate.testing import Conformance, ReceivedRequest, UpstreamAnswer, json_answer
from tornado_gate.testing.conformance.examples import PICTURE

_TASK = "kit-task"


def answer(request: ReceivedRequest) -> UpstreamAnswer:
    """Return a picture at an address, either directly or as the result of a task that has ended at its first poll."""
    if request.path.startswith("/pictures/"):
        return UpstreamAnswer(steps=(PICTURE,), content_type="image/png")
    picture = f"http://{request.headers['host']}/pictures/1.png"
    usage = {"image_count": 1, "width": 8, "height": 8}
    if "/tasks/" in request.path:
        output: dict[str, Any] = {"task_id": _TASK, "task_status": "SUCCEEDED", "results": [{"url": picture}]}
        return json_answer({"output": output, "usage": usage, "request_id": "kit"})
    if request.headers.get("x-dashscope-async") == "enable":
        return json_answer({"output": {"task_id": _TASK, "task_status": "PENDING"}, "request_id": "kit"})
    choice = {"finish_reason": "stop", "message": {"role": "assistant", "content": [{"image": picture}]}}
    return json_answer({"output": {"choices": [choice]}, "usage": usage, "request_id": "kit"})


conformance = Conformance(
    settings={"poll_seconds": 0.01},
    models={"images": "qwen-image-plus", "image_edits": "qwen-image-edit"},
    answer=answer,
)
