"""LiteLLM proxy, one worker, with a master key and no database. https://docs.litellm.ai/docs/proxy/configs"""

from __future__ import annotations

from bench.side import SideFacts

CONF = """
model_list:
  - model_name: mocked
    litellm_params: {model: openai/mocked, api_base: "http://127.0.0.1:$upstream/v1", api_key: bench-key}
litellm_settings: {telemetry: false, num_retries: 0, drop_params: true}  # otherwise it rejects response_format of an image
router_settings: {disable_cooldowns: true}
general_settings: {master_key: sk-bench}
"""

FACTS = SideFacts(
    name="litellm",
    title="LiteLLM proxy (Python)",
    work="checks keys, tracks cost, runs callbacks, translates",
    install=(
        ("$bin/python", "-m", "venv", "--without-pip", "$peers/litellm"),
        ("$bin/python", "-m", "pip", "--python", "$peers/litellm", "install", "-q", "litellm[proxy]==1.106.2"),
    ),
    version=("$peers/litellm/bin/python", "-c", "from importlib.metadata import version; print(version('litellm'))"),
    command=(
        *("$peers/litellm/bin/litellm", "--config", "$folder/config.yaml", "--host", "127.0.0.1", "--port", "$port"),
        *("--num_workers", "1"),
    ),
    files={"config.yaml": CONF},
    environment={
        "LITELLM_LOG": "ERROR",
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",
        "LITELLM_MODE": "PRODUCTION",
        "LITELLM_USE_CHAT_COMPLETIONS_URL_FOR_ANTHROPIC_MESSAGES": "True",  # the mock has no Responses API
    },
    headers={"Authorization": "Bearer sk-bench"},
    size="$peers/litellm",
    start_seconds=180.0,
)
