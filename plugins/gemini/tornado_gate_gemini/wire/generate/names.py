"""Member names: callers use camelCase and snake_case, upstreams get camelCase. Pure.

The vendor's API accepts both spellings; some compatible upstreams accept camelCase only. Only names of this format are changed,
not the names inside arguments, results and user-defined schemas.

Source: google-genai 3.4, google/genai/types.py (the trees below Content, GenerateContentConfig,
Tool, ToolConfig and EmbedContentConfig).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from operator import is_
from typing import Any, Final

from tornado_gate_gemini.wire import formats

WIRE_FORMAT: Final = formats.GEMINI_GENERATE

_SNAKE_NAMES: Final = """
additional_properties allowed_function_names any_of api_auth api_key api_key_config aspect_ratio audio_metadata
audio_timestamp audio_track_extraction audio_transcription audio_transcription_config auth_config auth_type
auto_truncate avg_logprobs bit_rate block_reason block_reason_message cache_tokens_details cached_content
cached_content_token_count candidate_count candidates_token_count candidates_tokens_details chosen_candidates
citation_metadata code_execution code_execution_result computer_use create_time custom_metadata data_store
data_store_specs display_name document_metadata document_ocr dynamic_retrieval_config dynamic_threshold
embed_content_config enable_affective_dialog enable_enhanced_civic_answers enable_widget end_index end_offset
enterprise_web_search exa_ai_search exclude_domains excluded_predefined_functions executable_code external_api file_data
file_id file_search file_search_store_names file_uri finish_message finish_reason frequency_penalty function_call
function_calling_config function_declarations function_response generate_content_request generation_config google_maps
google_search google_search_retrieval grounding_chunks grounding_metadata grounding_supports hybrid_search image_config
image_output_options image_search image_size include_server_side_tool_invocations include_thoughts inline_data json_path
language_code language_codes lat_lng log_probability logprobs_result max_items max_length max_output_tokens
max_properties max_results mcp_servers media_id media_processing media_resolution metadata_filter mime_type min_items
min_length min_properties model_name model_routing_preference model_selection_config model_status model_version
multi_speaker_voice_config num_tokens output_compression_quality output_dimensionality output_mime_type
parallel_ai_search parameters_json_schema part_metadata partial_args person_generation prebuilt_voice_config
presence_penalty prominent_people prompt_feedback prompt_token_count prompt_tokens_details property_ordering rag_corpora
rag_corpus rag_resources rag_retrieval_config replicated_voice_config response_format response_id response_json_schema
response_logprobs response_mime_type response_modalities response_schema retrieval_config routing_config safety_ratings
safety_settings sample_rate search_entry_point search_types service_account service_tier similarity_top_k
speaker_voice_configs speech_config speech_metadata spreadsheet_metadata start_index start_offset stop_sequences
stream_function_call_arguments streamable_http_transport system_instruction task_type thinking_budget thinking_config
thinking_level thought_signature thoughts_token_count time_range_filter token_count token_id tool_call tool_config
tool_response tool_type tool_use_prompt_token_count tool_use_prompt_tokens_details top_candidates top_k top_p
total_token_count total_tokens traffic_type translation_config url_context url_context_metadata usage_metadata
vector_distance_threshold vertex_ai_search vertex_rag_store video_metadata voice_config voice_name voice_sample_audio
web_search will_continue word_timestamp
"""

_WORD_START: Final = re.compile(r"_([a-z0-9])")
_CAPITAL: Final = re.compile(r"([A-Z])")
_CAMEL_OF_SNAKE: Final[Mapping[str, str]] = {
    name: _WORD_START.sub(lambda match: match[1].upper(), name) for name in _SNAKE_NAMES.split()
}
_SNAKE_NAME_SET: Final = frozenset(_CAMEL_OF_SNAKE)

_OPAQUE_MEMBERS: Final = frozenset(
    (
        "args",
        "response",
        "parametersJsonSchema",
        "responseJsonSchema",
        "labels",
        "partMetadata",
        "customMetadata",
        "headers",
        "enum",
        "required",
        "default",
        "example",
        "const",
        "propertyOrdering",
    )
)
_SCHEMA_MEMBERS: Final = frozenset(("parameters", "responseSchema"))


_CONTAINERS = frozenset({dict, list})
"""The types of a parsed JSON value that has members."""


def convert_name(name: str) -> str:
    """The camelCase spelling of a known member name; any other name unchanged."""
    return _CAMEL_OF_SNAKE.get(name, name)


def convert_to_camel_case(value: Any) -> Any:
    """`value` with the members of this format in camelCase; the same object when nothing had to be changed.

    When an object has a member in both spellings, the snake_case one is kept as an unknown member.
    """
    return value if _is_camel(value) else _convert_value(value)


def _is_camel(value: Any) -> bool:
    """Return whether `value` has no known snake_case name at any level (fast check for the frequent case)."""
    containers: list[Any] = [value] if type(value) in _CONTAINERS else []
    for container in containers:  # it grows; a loop takes less time than a function that calls itself
        if type(container) is list:
            members: Iterable[Any] = container
        elif _SNAKE_NAME_SET.isdisjoint(container):
            members = container.values()
        else:
            return False
        for member in members:
            if type(member) in _CONTAINERS:
                containers.append(member)
    return True


def may_have_snake_names(raw: bytes) -> bool:
    """Return whether a JSON text may have a name that `convert_to_camel_case` changes: it has an underscore, or an escape."""
    return b"_" in raw or b"\\u" in raw


def _convert_value(value: Any) -> Any:
    if isinstance(value, dict):
        return _convert_members(value, in_schema=False)
    if isinstance(value, list):
        items = [_convert_value(item) for item in value]
        return value if all(map(is_, items, value)) else items
    return value


def _convert_members(value: dict[str, Any], in_schema: bool) -> dict[str, Any]:
    changed: dict[str, tuple[str, Any]] = {}
    for name, member in value.items():
        known = _CAMEL_OF_SNAKE.get(name, name)
        if known is not name and known in value:
            known = name
        converted = _convert_member(known, member, in_schema) if isinstance(member, (dict, list)) else member
        if known is not name or converted is not member:
            changed[name] = (known, converted)
    if not changed:
        return value
    return dict(changed.get(name, (name, member)) for name, member in value.items())


def _convert_member(name: str, member: Any, in_schema: bool) -> Any:
    """The converted value of a member that is an object or an array."""
    if in_schema:
        return _convert_schema_member(name, member)
    if name in _SCHEMA_MEMBERS:
        return _convert_schema(member)
    return member if name in _OPAQUE_MEMBERS else _convert_value(member)


def _convert_schema(value: Any) -> Any:
    return _convert_members(value, in_schema=True) if isinstance(value, dict) else value


def _convert_schema_member(name: str, member: Any) -> Any:
    if name in ("properties", "$defs", "definitions", "defs") and isinstance(member, dict):
        inner = {key: _convert_schema(schema) for key, schema in member.items()}
        return inner if any(inner[key] is not member[key] for key in member) else member
    if isinstance(member, list) and name not in _OPAQUE_MEMBERS:
        items = [_convert_schema(item) for item in member]
        return items if any(new is not old for new, old in zip(items, member, strict=True)) else member
    return member if name in _OPAQUE_MEMBERS else _convert_schema(member)


def restore_spelling(body: Any, path: str) -> str:
    """`path` (dotted, camelCase) in the spelling that the caller of `body` used."""
    words: list[str] = []
    for word in path.split("."):
        name, body = _find_step(body, word)
        words.append(name)
    return ".".join(words)


def _find_step(value: Any, word: str) -> tuple[str, Any]:
    if isinstance(value, list):
        index = int(word) if word.isdecimal() else len(value)
        return word, value[index] if index < len(value) else None
    if not isinstance(value, Mapping) or word in value:
        return word, value.get(word) if isinstance(value, Mapping) else None
    snake = _CAPITAL.sub(lambda match: "_" + match[1].lower(), word)
    return (snake, value[snake]) if snake in value else (word, None)
