"""The facts in which chat models of any vendor differ; a vendor's struct adds its own facts. Pure.

Values come from a `model_table.ModelTable`. The defaults accept everything, for upstreams whose models are not known.
"""

from __future__ import annotations

from typing import Literal

from tornado_gate.types.server_tools import ServerToolKind
from tornado_gate.types.value import Value

DroppableField = Literal[
    "temperature",
    "top_p",
    "top_k",
    "stop",
    "seed",
    "presence_penalty",
    "frequency_penalty",
    "logit_bias",
    "logprobs",
    "top_logprobs",
    "parallel_tool_calls",
    "tools",
    "response_format",
    "reasoning",
    "modalities",
    "audio",
    "user",
    "metadata",
]
"""Fields of `ChatRequest` that a model may not accept."""

SchemaDialect = Literal["json", "inlined", "closed", "openapi"]
"""The schemas that a model accepts: any JSON schema; one without references; one with closed objects and few constraints;
or the OpenAPI subset with upper-case types. See `wire.json_schema`."""


class ChatFeatures(Value, frozen=True, kw_only=True):
    """Facts about one model. None means no limit.

    `drops`: fields that the model rejects. `efforts`: the reasoning efforts that it accepts, () if it has no efforts.
    `most_stops`, `most_tools`, `most_candidates`: counts. `longest_user`: characters of the user's id. Tool names have at most
    `longest_tool_name` characters: ASCII letters, digits and `tool_name_signs`, and with `tool_name_letter_first` not a digit
    or sign at the start, except ``_``. `custom_tools`: whether the model has tools whose input is free text; they are sent as
    functions otherwise. `schema`: the dialect of response formats. With `flat_parameters` the parameters of a tool are an
    object without ``anyOf``, ``oneOf`` or ``allOf`` at the top level. `server_tools`: the tools of other formats that its
    vendor runs, too. `max_output`: the largest ``max_tokens``. `media_types`: the accepted types of files inside a request, as
    patterns. With `prefill` the model continues a last assistant turn.
    """

    drops: tuple[DroppableField, ...] = ()
    efforts: tuple[str, ...] | None = None
    most_stops: int | None = None
    most_tools: int | None = None
    most_candidates: int | None = None
    longest_user: int | None = None
    longest_tool_name: int | None = None
    tool_name_signs: str = "_-"
    tool_name_letter_first: bool = False
    custom_tools: bool = False
    schema: SchemaDialect = "json"
    flat_parameters: bool = False
    server_tools: tuple[ServerToolKind, ...] = ()
    max_output: int | None = None
    media_types: tuple[str, ...] | None = None
    prefill: bool = True

    def list_abilities(self) -> tuple[str, ...]:
        """The abilities in words: ``tools``, ``reasoning``, and the kinds of input beside text."""
        kinds = {pattern.partition("/")[0] for pattern in self.media_types or ()}
        return self._name_abilities("image" in kinds, "audio" in kinds, "video" in kinds, "application" in kinds)

    def _name_abilities(self, images: bool, audio: bool, video: bool, files: bool) -> tuple[str, ...]:
        known = {
            "tools": "tools" not in self.drops,
            "reasoning": bool(self.efforts) and "reasoning" not in self.drops,
            "images": images,
            "audio": audio,
            "video": video,
            "files": files,
        }
        return tuple(name for name, has in known.items() if has)
