"""Files of any content: an import never raises, and what it writes passes the checks of conf, or is reported."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from tornado_gate.cli.importing.bifrost import read_bifrost
from tornado_gate.cli.importing.builder import ConfBuilder
from tornado_gate.cli.importing.litellm import read_litellm
from tornado_gate.cli.importing.new_api import read_new_api
from tornado_gate.cli.importing.portkey import read_portkey
from tornado_gate.cli.importing.verify import find_faults

NAMES = """
model_list model_name litellm_params model api_base api_key rpm weight order model_info timeout max_budget router_settings fallbacks
model_group_alias litellm_settings num_retries general_settings master_key environment_variables credential_list
channels tokens users type key status name models group model_mapping priority base_url id user_id model_limits allow_ips
strategy mode targets virtual_key provider override_params retry attempts cache custom_host configs slug config virtual_keys
providers keys value network_config extra_headers governance budgets max_limit reset_duration rate_limits teams customers
provider_configs allowed_models key_ids azure_key_config endpoint deployments
""".split()
TEXTS = [
    "openai",
    "openai/gpt-4o",
    "azure/x",
    "*",
    "a b",
    "os.environ/A",
    "env.A",
    "${B}",
    "http://h:1/v1",
    "fallback",
    "loadbalance",
    "1d",
    "gpt-4o",
    "\x00",
    "ü",
]

scalars = st.one_of(
    st.none(), st.booleans(), st.integers(-5, 10**12), st.floats(), st.sampled_from(TEXTS), st.text(max_size=8)
)
values = st.recursive(
    scalars,
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(st.sampled_from(NAMES), inner, max_size=6)),
    max_leaves=40,
)
READERS: list[Callable[[Any], ConfBuilder]] = [read_litellm, read_new_api, read_portkey, read_bifrost]


@settings(max_examples=150)
@given(values)
@example({"model_list": [{"model_name": "m", "litellm_params": {"model": "openai/x", "rpm": float("inf")}}]})
def test_any_value_is_read_without_an_exception(value: Any) -> None:
    for reader in READERS:
        builder = reader(value)
        text = builder.format_text("a source")
        list(builder.report.format_lines())
        find_faults(text, Path("gate.yaml"))
