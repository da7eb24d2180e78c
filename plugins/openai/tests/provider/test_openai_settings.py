"""Entries of conf: addresses, presets, settings, and what is wrong with them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import tornado_gate_openai.provider as plugin
from tornado_gate import Capabilities, ProviderEntry
from tornado_gate.errors import ConfigError
from tornado_gate.http.base_url import normalize_base_url
from tornado_gate_openai.provider.endpoints import ALL_PATHS
from tornado_gate_openai.provider.settings import OpenAISettings, load_presets

Entry = Callable[..., ProviderEntry]


@pytest.mark.parametrize(
    ("base_url", "version_path", "expected"),
    [
        ("https://h", "v1", "https://h/v1"),
        ("https://h/", "v1", "https://h/v1"),
        ("https://h/v1", "v1", "https://h/v1"),
        ("https://h/v1/", "v1", "https://h/v1"),
        ("  https://h/v1//  ", "v1", "https://h/v1"),
        ("https://h/v1/chat/completions", "v1", "https://h/v1"),
        ("https://h/chat/completions/", "v1", "https://h/v1"),
        ("https://h/v1/embeddings", "v1", "https://h/v1"),
        ("https://h/v1/audio/speech/", "v1", "https://h/v1"),
        ("https://h/images/generations", "v1", "https://h/v1"),
        ("https://h/v1/videos/", "v1", "https://h/v1"),
        ("https://h/v2", "v1", "https://h/v2"),
        ("https://h/V1", "v1", "https://h/V1"),
        ("https://h/v3alpha", "v1", "https://h/v3alpha"),
        ("https://h/v1beta/openai", "v1", "https://h/v1beta/openai"),
        ("https://h/v1beta1/openai/", "v1", "https://h/v1beta1/openai"),
        ("https://h/v1.1", "v1", "https://h/v1.1"),
        ("https://h/api/paas/v4", "v1", "https://h/api/paas/v4"),
        ("https://h/openai/v1", "v1", "https://h/openai/v1"),
        ("https://h/openai", "v1", "https://h/openai/v1"),
        ("https://h/vllm", "v1", "https://h/vllm/v1"),
        ("https://h/version1", "v1", "https://h/version1/v1"),
        ("https://v1.h", "v1", "https://v1.h/v1"),
        ("https://h", "", "https://h"),
        ("https://h/", "", "https://h"),
        ("https://h/v1", "", "https://h/v1"),
        ("https://h", "/v2/", "https://h/v2"),
        ("https://h", "openai/v1", "https://h/openai/v1"),
        ("https://h/openai", "openai/v1", "https://h/openai/v1"),
        ("https://h/openai/v1", "openai/v1", "https://h/openai/v1"),
        ("https://h/proxy", "openai/v1", "https://h/proxy/openai/v1"),
        ("http://127.0.0.1:11434", "v1", "http://127.0.0.1:11434/v1"),
        ("http://[::1]:8000/v1", "v1", "http://[::1]:8000/v1"),
    ],
)
def test_the_version_is_never_doubled_and_never_missing(base_url: str, version_path: str, expected: str) -> None:
    assert normalize_base_url(base_url, version_path, endpoints=ALL_PATHS) == expected


SEGMENT = st.from_regex(r"[a-z0-9.\-]{1,6}", fullmatch=True)


@given(st.lists(SEGMENT, max_size=4), st.lists(SEGMENT, max_size=2), st.booleans())
def test_normalising_twice_changes_nothing_more(path: list[str], version: list[str], slash: bool) -> None:
    version_path = "/".join(version)
    once = normalize_base_url("/".join(["https://h", *path]) + "/" * slash, version_path, endpoints=ALL_PATHS)
    assert once.startswith("https://h")
    assert not once.endswith("/")
    assert normalize_base_url(once, version_path, endpoints=ALL_PATHS) == once


@pytest.mark.parametrize(
    ("base_url", "message"),
    [
        ("upstream.example/v1", "must be an http or https URL"),
        ("ftp://h/v1", "must be an http or https URL"),
        ("https://", "must be an http or https URL"),
        ("https://h/v1?api-version=1", "a query"),
        ("https://h/v1#x", "a fragment"),
        ("https://user:secret@h/v1", "put the key into api_key"),
    ],
)
def test_what_is_no_address_is_a_fault_of_base_url(entry: Entry, base_url: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        plugin.configure(entry(base_url))
    ((path, text),) = caught.value.faults
    assert path == ("base_url",)
    assert message in text
    assert "secret" not in text


def facts(capabilities: Capabilities) -> OpenAISettings:
    assert isinstance(capabilities.settings, OpenAISettings)
    return capabilities.settings


def test_an_entry_of_which_nothing_is_said_has_no_differences(entry: Entry) -> None:
    capabilities = plugin.configure(entry("https://h"))
    assert capabilities.base_url == "https://h/v1"
    assert facts(capabilities) == OpenAISettings(models=dict(capabilities.models))


def test_a_preset_gives_the_address_and_the_facts(entry: Entry) -> None:
    capabilities = plugin.configure(entry("", preset="mistral"))
    assert capabilities.base_url == "https://api.mistral.ai/v1"
    assert facts(capabilities).rename == {
        "max_completion_tokens": "max_tokens",
        "seed": "random_seed",
        "dimensions": "output_dimension",
    }
    assert facts(capabilities).roles == {"developer": "system"}
    assert facts(capabilities).usage_in_stream is False


def test_the_entrys_own_values_beat_the_presets(entry: Entry) -> None:
    own = {
        "rename": {"seed": "seed", "dimensions": "dimensions", "user": "who"},
        "roles": {},
        "usage_in_stream": True,
        "drop": ["n"],
    }
    capabilities = plugin.configure(entry("https://proxy.test", preset="mistral", **own))
    assert capabilities.base_url == "https://proxy.test/v1"
    assert facts(capabilities).rename == {"max_completion_tokens": "max_tokens", "user": "who"}
    assert facts(capabilities).roles == {"developer": "system"}
    assert facts(capabilities).usage_in_stream is True
    assert facts(capabilities).drop == ("n",)


def test_an_own_list_of_drops_takes_the_place_of_the_presets(entry: Entry) -> None:
    assert facts(plugin.configure(entry("", preset="groq"))).drop == ("logit_bias", "logprobs", "top_logprobs")
    assert facts(plugin.configure(entry("", preset="groq", drop=[]))).drop == ()


@pytest.mark.parametrize("base_url", ["https://r.openai.azure.com", "https://r.openai.azure.com/openai/v1/"])
def test_azure_needs_its_own_address_and_gets_its_own_path(entry: Entry, base_url: str) -> None:
    configured = plugin.configure(entry(base_url, preset="azure-openai"))
    assert configured.base_url == "https://r.openai.azure.com/openai/v1"


@pytest.mark.parametrize("name", sorted(load_presets()))
def test_every_preset_can_be_used_as_it_stands(entry: Entry, name: str) -> None:
    preset = load_presets()[name]
    own = {key: value for key, value in preset.items() if key not in ("title", "needs_key")}
    base_url = own.pop("base_url", "https://resource.test/openai/v1")
    by_name = plugin.configure(entry("" if "base_url" in preset else base_url, preset=name))
    assert by_name.base_url == base_url  # as it is written in the file
    assert by_name == plugin.configure(entry(base_url, **own))


def test_organization_and_project_are_kept_as_headers(entry: Entry) -> None:
    configured = plugin.configure(entry(organization="org-1", project="proj-2"))
    assert facts(configured).headers == {"openai-organization": "org-1", "openai-project": "proj-2"}


@pytest.mark.parametrize(
    ("settings", "path", "message"),
    [
        ({"base_url": ""}, ("base_url",), "is missing; set the upstream's URL, or a preset"),
        (
            {"base_url": "", "preset": "azure-openai"},
            ("base_url",),
            "is missing; the preset 'azure-openai' requires it",
        ),
        ({"preset": "grok"}, ("preset",), "unknown preset 'grok'; did you mean 'groq'?"),
        ({"preset": "zzzzz"}, ("preset",), "unknown preset 'zzzzz'; use one of azure-openai, cerebras"),
        ({"preset": ""}, ("preset",), "unknown preset ''"),
        ({"renames": {}}, ("renames",), "did you mean 'rename'?"),
        ({"drop": ["model"]}, ("drop",), "'model' cannot be dropped or renamed"),
        ({"drop": ["file"]}, ("drop",), "'file' cannot be dropped or renamed"),
        ({"rename": {"messages": "input"}}, ("rename",), "'messages' cannot be dropped or renamed"),
        ({"rename": {"seed": 1}}, ("rename", "seed"), "must be a string"),
        ({"roles": {"developer": "sytem"}}, ("roles", "developer"), "must be one of 'system'"),
        ({"roles": {"dev": "system"}}, ("roles", "dev"), "must be one of 'system'"),
        ({"usage_in_stream": "yes"}, ("usage_in_stream",), "must be true or false"),
        ({"organization": "a\r\nx: y"}, ("organization",), "printable ASCII text"),
    ],
)
def test_a_wrong_setting_is_named_with_what_is_allowed(
    entry: Entry, settings: dict[str, Any], path: tuple[str, ...], message: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        plugin.configure(entry(**settings))
    found = dict(caught.value.faults)
    assert message in found[path]


def test_thinking_goes_back_to_the_models_that_require_it(entry: Entry) -> None:
    capabilities = plugin.configure(entry("", preset="deepseek"))
    assert (capabilities.signatures, capabilities.needs_unsigned_thinking("deepseek-reasoner")) == (True, True)
    own = plugin.configure(entry("https://h", model_rules={"kimi-*": {"reasoning_content": True}}))
    assert [own.needs_unsigned_thinking(model) for model in ("kimi-k2", "other")] == [True, False]
    assert not plugin.configure(entry("https://h")).signatures
