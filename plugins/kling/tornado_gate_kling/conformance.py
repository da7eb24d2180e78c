"""The declaration for ``tornado-gate plugins check kling``: the vendor's responses.

Source: the pages that `tornado_gate_kling.answers` names.
"""

from __future__ import annotations

from typing import Any

from tornado_gate.testing import Conformance, ReceivedRequest, UpstreamAnswer, json_answer
from tornado_gate.testing.conformance.imitations.words import VIDEO

_TASK = "kit-task"


def answer(request: ReceivedRequest) -> UpstreamAnswer:
    """Return a video that is complete at the first poll, or its file."""
    if request.path.startswith("/files/"):
        return UpstreamAnswer(steps=(VIDEO,), content_type="video/mp4")
    data: dict[str, Any] = {"task_id": _TASK, "task_status": "submitted", "created_at": 1, "updated_at": 1}
    if request.method == "GET":
        video = {"id": "kit", "url": f"http://{request.headers['host']}/files/1.mp4", "duration": "5"}
        data |= {"task_status": "succeed", "task_status_msg": "", "task_result": {"videos": [video]}}
    return json_answer({"code": 0, "message": "SUCCEED", "request_id": "kit", "data": data})


conformance = Conformance(answer=answer)
