"""The vendors of other gateways, and the plugin and settings that serve each of them here.

Addresses are from `constants.py` of LiteLLM, `providers/*/api.ts` of Portkey's gateway, and `channeltype/url.go` of one-api, read
in November 2026; the presets of the plugin `openai` have the others.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final
from urllib.parse import urlsplit

from tornado_gate.types.value import Value, field


class SourceVendor(Value, frozen=True):
    """A vendor: the plugin and its settings, and the environment variable that usually has the key ("" for none)."""

    name: str
    variable: str = ""
    plugin: str = "openai"
    settings: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    needs_address: bool = False


def _preset(preset: str, variable: str = "", *, needs_address: bool = False) -> SourceVendor:
    return SourceVendor(preset, variable, "openai", {"preset": preset}, needs_address)


def _compatible(name: str, variable: str, base_url: str = "", version_path: str | None = None) -> SourceVendor:
    """Return a vendor with OpenAI's wire format. `version_path` "" is for an address without a version part."""
    settings = {"base_url": base_url} if base_url else {}
    if version_path is not None:
        settings["version_path"] = version_path
    return SourceVendor(name, variable, "openai", settings, needs_address=not base_url)


_ALL: Final = (
    _preset("openai", "OPENAI_API_KEY"),
    _preset("azure-openai", "AZURE_API_KEY", needs_address=True),
    _preset("cerebras", "CEREBRAS_API_KEY"),
    _preset("deepseek", "DEEPSEEK_API_KEY"),
    _preset("fireworks", "FIREWORKS_API_KEY"),
    _preset("groq", "GROQ_API_KEY"),
    _preset("llamacpp"),
    _preset("lmstudio"),
    _preset("mistral", "MISTRAL_API_KEY"),
    _preset("nvidia", "NVIDIA_NIM_API_KEY"),
    _preset("ollama"),
    _preset("openrouter", "OPENROUTER_API_KEY"),
    _preset("together", "TOGETHERAI_API_KEY"),
    _preset("vllm", needs_address=True),
    _preset("xai", "XAI_API_KEY"),
    SourceVendor("anthropic", "ANTHROPIC_API_KEY", "anthropic"),
    SourceVendor("gemini", "GEMINI_API_KEY", "gemini"),
    _compatible("compatible", ""),
    _compatible("anyscale", "ANYSCALE_API_KEY", "https://api.endpoints.anyscale.com/v1"),
    _compatible("azure-ai", "AZURE_AI_API_KEY"),
    _compatible("baichuan", "BAICHUAN_API_KEY", "https://api.baichuan-ai.com/v1"),
    _compatible("dashscope", "DASHSCOPE_API_KEY", "https://dashscope-intl.aliyuncs.com/compatible-mode/v1"),
    _compatible("dashscope-cn", "DASHSCOPE_API_KEY", "https://dashscope.aliyuncs.com/compatible-mode/v1"),
    _compatible("deepinfra", "DEEPINFRA_API_KEY", "https://api.deepinfra.com/v1/openai"),
    _compatible("featherless", "FEATHERLESS_AI_API_KEY", "https://api.featherless.ai/v1"),
    _compatible("friendli", "FRIENDLI_TOKEN", "https://api.friendli.ai/serverless/v1"),
    _compatible("github", "GITHUB_API_KEY", "https://models.inference.ai.azure.com", ""),
    _compatible("hyperbolic", "HYPERBOLIC_API_KEY", "https://api.hyperbolic.xyz/v1"),
    _compatible("inference-net", "INFERENCE_NET_API_KEY", "https://api.inference.net/v1"),
    _compatible("kluster", "KLUSTER_API_KEY", "https://api.kluster.ai/v1"),
    _compatible("lambda", "LAMBDA_API_KEY", "https://api.lambda.ai/v1"),
    _compatible("lingyi", "LINGYI_API_KEY", "https://api.lingyiwanwu.com/v1"),
    _compatible("minimax", "MINIMAX_API_KEY", "https://api.minimax.chat/v1"),
    _compatible("moonshot", "MOONSHOT_API_KEY", "https://api.moonshot.ai/v1"),
    _compatible("moonshot-cn", "MOONSHOT_API_KEY", "https://api.moonshot.cn/v1"),
    _compatible("nebius", "NEBIUS_API_KEY", "https://api.studio.nebius.ai/v1"),
    _compatible("novita", "NOVITA_API_KEY", "https://api.novita.ai/v3/openai"),
    _compatible("nscale", "NSCALE_API_KEY", "https://inference.api.nscale.com/v1"),
    _compatible("perplexity", "PERPLEXITYAI_API_KEY", "https://api.perplexity.ai", ""),
    _compatible("sambanova", "SAMBANOVA_API_KEY", "https://api.sambanova.ai/v1"),
    _compatible("siliconflow", "SILICONFLOW_API_KEY", "https://api.siliconflow.cn/v1"),
    _compatible("stepfun", "STEPFUN_API_KEY", "https://api.stepfun.com/v1"),
    _compatible("upstage", "UPSTAGE_API_KEY", "https://api.upstage.ai/v1/solar"),
    _compatible("volcengine", "VOLCENGINE_API_KEY", "https://ark.cn-beijing.volces.com/api/v3"),
    _compatible("wandb", "WANDB_API_KEY", "https://api.inference.wandb.ai/v1"),
    _compatible("zai", "ZAI_API_KEY", "https://api.z.ai/api/paas/v4"),
    _compatible("zhipu", "ZHIPU_API_KEY", "https://open.bigmodel.cn/api/paas/v4"),
)
VENDORS: Final = {vendor.name: vendor for vendor in _ALL}

_ALIASES: Final = {
    "azure": "azure-openai",
    "azure_ai": "azure-ai",
    "azure-openai": "azure-openai",
    "custom_openai": "compatible",
    "docker_model_runner": "compatible",
    "featherless_ai": "featherless",
    "featherless-ai": "featherless",
    "fireworks_ai": "fireworks",
    "fireworks-ai": "fireworks",
    "friendliai": "friendli",
    "google": "gemini",
    "hosted_vllm": "vllm",
    "kluster-ai": "kluster",
    "lambda_ai": "lambda",
    "litellm_proxy": "compatible",
    "llamafile": "compatible",
    "lm_studio": "lmstudio",
    "mistral-ai": "mistral",
    "novita-ai": "novita",
    "nvidia_nim": "nvidia",
    "ollama_chat": "ollama",
    "openai_like": "compatible",
    "perplexity-ai": "perplexity",
    "sgl": "compatible",
    "text-completion-openai": "openai",
    "together_ai": "together",
    "together-ai": "together",
    "x-ai": "xai",
    "xinference": "compatible",
    "z-ai": "zai",
}

_UNSUPPORTED: Final = {
    "bedrock": "no plugin signs requests for AWS; serve it through an OpenAI-compatible proxy and add that as a provider",
    "sagemaker": "no plugin signs requests for AWS; serve it through an OpenAI-compatible proxy and add that as a provider",
    "vertex": "no plugin signs in with Google service accounts; use the Gemini API with an API key instead",
}


def find_vendor(name: str) -> SourceVendor | None:
    """Return the vendor with this name of LiteLLM, Portkey or Bifrost; None if no plugin serves it."""
    name = name.strip().lower()
    return VENDORS.get(_ALIASES.get(name, name))


def guess_vendor(slug: str) -> SourceVendor | None:
    """Return the vendor whose name a slug such as ``open-ai-prod-1a2b`` begins with, or None."""
    slug = slug.strip().lower().removeprefix("@").replace("open-ai", "openai").replace("azure-openai", "azure")
    names = sorted({*VENDORS, *_ALIASES} - {"compatible"}, key=len, reverse=True)
    return next((find_vendor(name) for name in names if slug.startswith(name) or name in slug.split("-")), None)


def explain_unsupported(name: str) -> str:
    """Return why no plugin serves a vendor, and what to do."""
    known = next((text for start, text in _UNSUPPORTED.items() if name.strip().lower().startswith(start)), "")
    return known or (
        "no plugin serves this vendor; if it has an OpenAI-compatible API, add a provider with `plugin: openai` and its "
        "base_url, or write a plugin (docs/plugins/README.md)"
    )


def adapt_vendor(vendor: SourceVendor, base_url: str) -> SourceVendor:
    """Return the vendor for an address: an upstream with OpenAI's wire format elsewhere has none of OpenAI's own models."""
    host = urlsplit(base_url).hostname or ""
    is_own = vendor.name != "openai" or not base_url or f".{host}".endswith(".openai.com")
    return vendor if is_own else VENDORS["compatible"]


def make_provider_name(vendor: SourceVendor, base_url: str) -> str:
    """Return a name for the provider entry: the vendor's, or for a compatible upstream the name of its host."""
    host = urlsplit(base_url).hostname or "" if vendor.name == "compatible" and "${" not in base_url else ""
    is_name = any(character.isalpha() for character in host)
    return host.replace(".", "-") if is_name else vendor.name


def choose_address(vendor: SourceVendor, base_url: str) -> dict[str, Any]:
    """Return the settings for an upstream's address that the source states.

    The sources append only the path of the route. A path without a version part therefore gets ``version_path: ""``. An address
    that is only a host keeps the default, because servers such as vLLM and llama.cpp have their routes below ``/v1``.
    """
    settings: dict[str, Any] = {"base_url": base_url}
    parts = urlsplit(base_url)
    if vendor.name == "azure-openai" and parts.path.startswith("/openai"):
        settings["base_url"] = f"{parts.scheme}://{parts.netloc}"
    if vendor.plugin != "openai" or vendor.name == "azure-openai" or "${" in base_url:
        return settings
    if base_url.rstrip("/") == str(vendor.settings.get("base_url", "")).rstrip("/"):
        return settings
    path = parts.path.strip("/")
    if path and not any(part[:1] == "v" and part[1:2].isdigit() for part in path.split("/")):
        settings["version_path"] = ""
    return settings
