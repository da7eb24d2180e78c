"""The facts in which models with this format differ; the provider has them from its table. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from tornado_gate.types.value import field
from tornado_gate.wire.model_features import ChatFeatures

_SERVER_TOOL_TYPES = {
    "web_search": "web_search_20250305",
    "web_fetch": "web_fetch_20250910",
    "code_execution": "code_execution_20250825",
}
"""The first versions, which do not need code execution for a search."""


class ModelFeatures(ChatFeatures, frozen=True, kw_only=True):
    """Facts about one upstream model. The defaults fit the oldest models and unknown models.

    `thinking` is how thinking is enabled: with a token "budget", "adaptive" with an effort level, or "none". With
    `thinking_default` the model thinks unless the request switches thinking off. `thinking_off` is how thinking is switched
    off: "disabled", "between_tools" (none before the first tool call) or "never". `display`: whether thinking is returned by
    default. `forced_tools`: whether a tool can be forced: "always", "without_thinking" or "never". `sampling` is which of
    temperature, top_p and top_k the model accepts: "all", "one" (not both temperature and top_p) or "none". `system_turns`: the
    model accepts messages of role "system" between turns. `opaque_user`: a user id that shows an e-mail address or phone number
    is rejected. `default_output` is ``max_tokens`` for requests without a limit, without thinking. `bound_thinking`: the model
    rejects thinking after any change of the content before it, unless the request allows the model to ignore it.
    `server_tool_types`: the type of each server tool, with its version, for requests of other formats.
    """

    thinking: Literal["budget", "adaptive", "none"] = "budget"
    thinking_default: bool = False
    thinking_off: Literal["disabled", "between_tools", "never"] = "disabled"
    display: Literal["summarized", "omitted"] = "summarized"
    forced_tools: Literal["always", "without_thinking", "never"] = "without_thinking"
    sampling: Literal["all", "one", "none"] = "all"
    system_turns: bool = False
    opaque_user: bool = False
    bound_thinking: bool = False
    default_output: int = 4096
    server_tool_types: Mapping[str, str] = field(default_factory=lambda: dict(_SERVER_TOOL_TYPES))
