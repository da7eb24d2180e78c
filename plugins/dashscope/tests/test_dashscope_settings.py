"""Entries of conf: their settings and their faults."""

from __future__ import annotations

from itertools import islice
from typing import Any

import pytest

import tornado_gate_dashscope as plugin
from tornado_gate import ProviderEntry
from tornado_gate.errors import ConfigError
from tornado_gate.plugins.host import PluginHost
from tornado_gate.plugins.lanes import ProviderLane
from tornado_gate_dashscope.settings import DashScopeSettings


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("", "https://dashscope-intl.aliyuncs.com/api/v1"),
        ("https://dashscope.aliyuncs.com", "https://dashscope.aliyuncs.com/api/v1"),
        ("https://dashscope.aliyuncs.com/", "https://dashscope.aliyuncs.com/api/v1"),
        ("https://dashscope.aliyuncs.com/api", "https://dashscope.aliyuncs.com/api/v1"),
        ("https://dashscope.aliyuncs.com/api/v1/", "https://dashscope.aliyuncs.com/api/v1"),
        ("http://127.0.0.1:9/ali", "http://127.0.0.1:9/ali/api/v1"),
    ],
)
def test_the_version_is_there_once(given: str, expected: str) -> None:
    assert plugin.configure(ProviderEntry(name="d", base_url=given)).base_url == expected


@pytest.mark.parametrize(
    "base_url",
    [
        "ftp://h.example",
        "h.example",
        "https://h.example/?key=1",
        "https://u:p@h.example",
        "https://dashscope.aliyuncs.com/compatible-mode/v1",
    ],
)
def test_an_address_that_cannot_be_right_is_refused(base_url: str) -> None:
    with pytest.raises(ConfigError) as caught:
        plugin.configure(ProviderEntry(name="d", base_url=base_url))
    assert caught.value.faults[0][0] == ("base_url",)


@pytest.mark.parametrize(
    ("settings", "path"),
    [
        ({"poll_seconds": "2"}, ("poll_seconds",)),
        ({"poll_seconds": 0}, ("poll_seconds",)),
        ({"poll_seconds": True}, ("poll_seconds",)),
        ({"poll_seconds": 3600}, ("poll_seconds",)),
        ({"asynchronous": "wan*"}, ("asynchronous",)),
        ({"asynchronous": [1]}, ("asynchronous", 0)),
        ({"async": []}, ("async",)),
    ],
)
def test_a_setting_that_is_none_is_refused_by_its_path(settings: dict[str, Any], path: tuple[Any, ...]) -> None:
    with pytest.raises(ConfigError) as caught:
        plugin.configure(ProviderEntry(name="d", settings=settings))
    assert caught.value.faults[0][0] == path


@pytest.mark.parametrize(
    ("model", "operations"),
    [
        ("qwen-image", {"images"}),
        ("qwen-image-plus-2026-01-09", {"images"}),
        ("qwen-image-edit", {"image_edits"}),
        ("qwen-image-edit-max-2026-01-16", {"image_edits"}),
        ("qwen-image-2.0-pro", {"images", "image_edits"}),
        ("qwen-image-3.0", {"images", "image_edits"}),
        ("wan2.2-t2i-flash", {"images"}),
        ("wanx2.1-t2i-turbo", {"images"}),
        ("wan2.5-i2i-preview", {"image_edits"}),
        ("wanx2.1-imageedit", {"image_edits"}),
        ("wan2.6-image", {"image_edits"}),
        ("wan2.7-image-pro", {"images", "image_edits"}),
        ("z-image-turbo", {"images"}),
        ("a-model-of-tomorrow", {"images", "image_edits"}),
    ],
)
def test_a_model_does_what_its_name_says(model: str, operations: set[str]) -> None:
    assert plugin.configure(ProviderEntry(name="d")).get_operations(model) == operations


def test_the_core_takes_the_plugin_for_a_provider() -> None:
    host = PluginHost()
    lane = ProviderLane(host, host.add("dashscope", plugin), [])
    assert lane.configure(ProviderEntry(name="d")).operations == {"images", "image_edits"}


def test_requests_never_pass_as_they_came() -> None:
    assert plugin.configure(ProviderEntry(name="d")).speaks == frozenset()


@pytest.mark.parametrize(
    ("model", "by_task"),
    [
        ("wanx-v1", True),
        ("wanx2.1-imageedit", True),
        ("wan2.2-t2i-plus", True),
        ("wan2.5-i2i-preview", True),
        ("wan2.6-t2i", False),
        ("wan2.7-image", False),
        ("qwen-image-plus", False),
        ("z-image-turbo", False),
    ],
)
def test_only_models_that_cannot_answer_at_once_work_by_task(model: str, by_task: bool) -> None:
    assert DashScopeSettings().uses_tasks(model) is by_task


def test_pauses_grow_up_to_five_seconds() -> None:
    assert list(islice(DashScopeSettings().iterate_pauses(), 5)) == [2.0, 3.0, 4.5, 5.0, 5.0]


def test_a_pause_above_five_seconds_stays_as_conf_says() -> None:
    assert list(islice(DashScopeSettings(poll_seconds=10).iterate_pauses(), 3)) == [10, 10, 10]
