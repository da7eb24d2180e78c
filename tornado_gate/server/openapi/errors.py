"""The statuses of errors, and the codes that each may have. A test finds codes in the source that are missing here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tornado_gate.errors import GateError

STATUSES: Mapping[int, tuple[str, tuple[str, ...]]] = {
    400: (
        "The request is wrong; `param` is the path of the field, such as `messages.0.role`.",
        (
            *("invalid_request", "invalid_value", "missing_required_parameter", "unsupported_parameter"),
            *("unsupported_value", "mutually_exclusive_parameters", "operation_not_supported", "invalid_json"),
            *("duplicate_name", "too_many_values", "invalid_form", "invalid_query", "invalid_http", "invalid_url"),
            *("unreachable_url", "wrong_media_type", "invalid_image", "image_too_large", "string_above_max_length"),
            *("blocked_by_guard", "not_reviewed", "unreadable_file"),
            *("tool_call_missing", "tool_result_missing", "tool_result_repeated"),
            *("unsupported_tool", "audio_input_not_supported", "transcription_not_supported", "webhooks_off"),
            *("item_not_found", "object_kept_elsewhere", "previous_response_not_found", "response_not_cancellable"),
            *("conversation_full", "conversation_too_large", "invalid_prompt", "content_policy_violation"),
            *("upstream_refused", "upstream_response_failed", "upgrade_required", "invalid_item_reference", "denied"),
            "invalid_configuration",
            "provider_key_required",
        ),
    ),
    401: (
        "No key, a bad key, or two different keys. The header `WWW-Authenticate` is `Bearer`.",
        ("missing_api_key", "invalid_api_key", "ambiguous_api_key", "invalid_metrics_token", "sign_in_failed"),
    ),
    403: (
        "The key lacks the permission.",
        (
            *("not_allowed", "model_not_allowed", "origin_not_allowed", "address_not_allowed", "unpriced_model"),
            *("administrator_required", "outranks_maker", "not_your_key", "not_a_member"),
        ),
    ),
    404: (
        "No such route, model, task, response or file.",
        (
            *("not_found", "unknown_route", "model_not_found", "task_not_found", "video_not_found", "video_not_ready"),
            *(
                "response_not_found",
                "conversation_not_found",
                "key_not_found",
                "unknown_request",
                "unknown_provider",
                "unknown_plugin",
                "unknown_model",
                "unknown_user",
                "unknown_team",
                "unknown_invitation",
                "unknown_tape",
                "file_not_found",
                "file_expired",
                "metrics_off",
            ),
        ),
    ),
    405: ("The path has no such method; the header `Allow` lists those it has.", ("method_not_allowed",)),
    408: ("The request arrived too slowly.", ("request_timeout",)),
    409: (
        "The request contradicts an earlier one.",
        (
            "conflict",
            "idempotency_conflict",
            "response_cancel_not_active",
            "key_revoked",
            "key_rotated",
            "key_expired",
            "ambiguous_name",
            "ambiguous_request_id",
            "already_exists",
            "in_use",
            "configuration_changed",
            "configuration_not_writable",
        ),
    ),
    413: ("The body is too large.", ("request_too_large",)),
    415: ("The content type of the body is not the route's.", ("unsupported_media_type",)),
    416: ("The file has no such range.", ("range_not_satisfiable",)),
    417: ("The header `Expect` has a value other than `100-continue`.", ("expectation_failed",)),
    426: ("The route takes WebSocket connections only.", ("upgrade_required",)),
    429: (
        "A limit of the key, a budget, or the upstream's limit; `Retry-After` is the wait in seconds.",
        (
            *("rate_limited", "budget_exceeded", "too_many_concurrent", "too_many_tasks"),
            *("too_many_sessions", "too_many_client_secrets", "too_many_attempts", "upstream_rate_limited"),
        ),
    ),
    431: ("The headers are too large.", ("headers_too_large",)),
    500: ("An unexpected error in the gateway.", ("internal_error",)),
    501: ("HTTP has no such method.", ("unknown_method",)),
    502: (
        "The upstream failed.",
        (
            *("upstream_error", "upstream_authentication", "upstream_unreachable", "upstream_lost"),
            *("upstream_answer_too_large", "upstream_answer_too_complex", "upstream_event_too_large"),
            *("upstream_compression_too_high", "upstream_no_video", "upstream_lost_task", "upstream_file_gone"),
        ),
    ),
    503: (
        "No target is available, a plugin failed, or the gateway is overloaded or shutting down.",
        (
            *("unavailable", "shutting_down", "overloaded", "target_busy", "plugin_failed", "plugin_unavailable"),
            *("storage_unavailable", "too_many_connections", "upstream_overloaded", "provider_removed"),
            *("task_database_unavailable", "video_on_other_node"),
        ),
    ),
    504: ("The upstream did not answer in time.", ("upstream_timeout",)),
    507: ("The storage of files is full, or the file is larger than it takes.", ("storage_full", "file_too_large")),
}
"""Status -> (meaning, codes)."""

STREAM_CODES = frozenset(
    {
        *("invalid", "cancelled", "invalid_message", "invalid_stream_id", "session_expired"),
        *("websocket_stream_limit_reached", "websocket_connection_limit_reached", "too_many_active_responses"),
        *("input_audio_buffer_full", "input_audio_buffer_commit_empty", "item_create_invalid_previous_item_id"),
        *("item_create_duplicate_id", "conversation_already_has_active_response"),
    }
)
"""Codes of events in a stream or a session, and of failed tasks, which have no status."""

ERROR_SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "description": "Formats may add members beside these.",
    "required": ["error"],
    "properties": {
        "error": {
            "type": "object",
            "required": ["message", "type", "param", "code"],
            "properties": {
                "message": {"type": "string", "description": "What failed, why, and what to do."},
                "type": {"type": "string", "description": "The kind of error, such as `invalid_request_error`."},
                "param": {"type": "string", "description": "The path of the wrong field; empty if there is none."},
                "code": {
                    "type": ["string", "integer"],
                    "description": "A word for programs; a number only for SDKs that need one.",
                },
            },
            "additionalProperties": True,
        }
    },
    "additionalProperties": True,
}


class ExampleError(GateError):
    """An example of an error, which each format renders in its own envelope."""

    def __init__(self, status: int) -> None:
        meaning, codes = STATUSES[status]
        super().__init__(meaning, status=status, code=codes[0])


def describe_status(status: int) -> str:
    """Return the meaning of a status and its codes, as Markdown."""
    meaning, codes = STATUSES[status]
    return f"{meaning} Codes: {', '.join(f'`{code}`' for code in codes)}."
