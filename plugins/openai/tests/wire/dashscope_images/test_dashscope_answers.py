"""What the vendor answers, as its pages show it, and what its codes become."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tornado_gate.errors import (
    UpstreamError,
    UpstreamKeyRefused,
    UpstreamRateLimited,
    UpstreamRefused,
    UpstreamTimeout,
)
from tornado_gate.testing import call_to
from tornado_gate.types import Usage
from tornado_gate_openai.wire.dashscope_images import (
    FailureReport,
    ImageLocation,
    ImageResponse,
    make_error,
    parse_response,
    parse_task,
)

AT_ONCE = {
    "output": {
        "choices": [
            {
                "finish_reason": "stop",
                "message": {"role": "assistant", "content": [{"image": "https://oss.example/1.png?Expires=1"}]},
            }
        ],
        "task_metric": {"FAILED": 0, "SUCCEEDED": 1, "TOTAL": 1},
    },
    "usage": {"width": 1664, "image_count": 1, "height": 928},
    "request_id": "d0250a3d",
}
BY_TASK = {
    "request_id": "85eaba38",
    "output": {
        "task_id": "86ecf553",
        "task_status": "SUCCEEDED",
        "results": [
            {"url": "https://oss.example/a.png", "orig_prompt": "cat", "actual_prompt": "A fine cat"},
            {"code": "InternalError.Timeout", "message": "An internal timeout error has occurred."},
        ],
        "task_metrics": {"TOTAL": 2, "SUCCEEDED": 1, "FAILED": 1},
    },
    "usage": {"image_count": 1},
}


def test_an_answer_at_once_has_pictures_in_choices() -> None:
    assert parse_response(AT_ONCE) == ImageResponse(
        pictures=(ImageLocation(url="https://oss.example/1.png?Expires=1"),),
        usage=Usage(extra={"width": 1664, "image_count": 1, "height": 928}),
        size="1664x928",
    )
    assert parse_response(AT_ONCE).request_id == "d0250a3d"


def test_an_answer_by_task_has_pictures_and_faults_in_results() -> None:
    assert parse_response(BY_TASK) == ImageResponse(
        pictures=(ImageLocation(url="https://oss.example/a.png", revised_prompt="A fine cat"),),
        faults=(FailureReport(code="InternalError.Timeout", message="An internal timeout error has occurred."),),
        usage=Usage(extra={"image_count": 1}),
    )


def test_tokens_that_the_vendor_counts_are_usage() -> None:
    usage = {"size": "2985*1405", "total_tokens": 18792, "image_count": 1, "output_tokens": 2, "input_tokens": 18790}
    answer = parse_response({"output": {}, "usage": usage})
    assert answer.usage == Usage(input_tokens=18790, output_tokens=2, extra={"size": "2985*1405", "image_count": 1})
    assert answer.size == "2985x1405"


def test_words_beside_the_pictures_are_kept() -> None:
    content = [{"image": "https://oss.example/1.png"}, {"text": "A lake "}, {"text": "at dawn"}]
    answer = parse_response({"output": {"choices": [{"message": {"content": content}}]}})
    assert (len(answer.pictures), answer.text) == (1, "A lake at dawn")


@pytest.mark.parametrize(
    "body",
    [None, [], "x", {}, {"output": None}, {"output": {"choices": [None, {"message": 3}], "results": {"url": "x"}}}],
)
def test_an_answer_of_any_other_shape_holds_nothing(body: Any) -> None:
    assert parse_response(body) == ImageResponse()


def test_a_fault_with_status_200_is_seen() -> None:
    answer = parse_response({"code": "InvalidParameter", "message": "num_images_per_prompt must be 1"})
    assert answer.faults == (FailureReport(code="InvalidParameter", message="num_images_per_prompt must be 1"),)


@pytest.mark.parametrize(
    ("status", "waiting"),
    [
        ("PENDING", True),
        ("RUNNING", True),
        ("SUSPENDED", True),
        ("SUCCEEDED", False),
        ("FAILED", False),
        ("CANCELED", False),
        ("UNKNOWN", False),
        (None, False),
    ],
)
def test_a_task_is_asked_again_only_while_it_waits(status: str | None, waiting: bool) -> None:
    task = parse_task({"output": {"task_id": "t", "task_status": status}})
    assert (task.id, task.status, task.is_waiting) == ("t", status or "", waiting)


def test_a_failed_task_says_why() -> None:
    output = {"task_id": "t", "task_status": "FAILED", "code": "InvalidParameter", "message": "bad size"}
    assert parse_task({"request_id": "r", "output": output}).fault == FailureReport(
        code="InvalidParameter", message="bad size"
    )


@pytest.mark.parametrize(
    ("code", "kind", "status", "shown"),
    [
        ("DataInspectionFailed", UpstreamRefused, 400, "said"),
        ("InvalidParameter", UpstreamRefused, 400, "said"),
        ("InvalidParameter.DataInspection", UpstreamRefused, 400, "said"),
        ("Throttling.RateQuota", UpstreamRateLimited, 429, "said"),
        ("ModelNotFound", UpstreamRefused, 404, "said"),
        ("InternalError.Timeout", UpstreamTimeout, 504, "reported a timeout"),
        ("InternalError.Algo", UpstreamError, 502, "InternalError.Algo"),
        ("", UpstreamError, 502, "no reason"),
        ("Arrearage", UpstreamKeyRefused, 502, "refused the gateway's own credentials"),
        ("InvalidApiKey", UpstreamKeyRefused, 502, "refused the gateway's own credentials"),
        ("Model.AccessDenied", UpstreamKeyRefused, 502, "refused the gateway's own credentials"),
    ],
)
def test_a_code_becomes_an_error_with_its_status(code: str, kind: type, status: int, shown: str) -> None:
    error = make_error(call_to(), FailureReport(code=code, message="it said so"))
    assert type(error) is kind
    assert error.status == status
    assert shown in error.message


@pytest.mark.parametrize("code", ["Arrearage", "InternalError.Algo"])
def test_the_vendors_words_about_itself_stay_here(code: str) -> None:
    assert "secret" not in make_error(call_to(), FailureReport(code=code, message="secret of the account")).message


def test_a_refusal_about_the_account_is_no_answer_for_the_caller() -> None:
    unpaid = make_error(call_to(), FailureReport(code="Arrearage", message="please pay"), status=400)
    assert (type(unpaid), unpaid.status) == (UpstreamKeyRefused, 502)
    assert "please" not in unpaid.message
    other = make_error(call_to(), FailureReport(code="InvalidParameter", message="bad size"), status=422)
    assert (other.status, other.code, other.message) == (422, "InvalidParameter", "bad size")


def test_a_limit_says_when_to_come_again() -> None:
    limited = make_error(call_to(), FailureReport(code="Throttling", message="slow"), 429, {"retry-after": "3"})
    assert limited.retry_after == 3


def test_the_id_of_a_request_is_no_part_of_what_an_answer_is() -> None:
    assert replace(parse_response(AT_ONCE), request_id="other") == parse_response(AT_ONCE)
