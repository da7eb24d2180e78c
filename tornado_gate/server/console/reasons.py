"""The meaning of error codes, with advice. This is the one place where codes become words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tornado_gate.server.console.languages.catalogues import translate
from tornado_gate.types.value import Value


class Reason(Value, frozen=True):
    """The meaning of a code: `meaning` describes the event, `advice` the remedy; both are sentences."""

    meaning: str
    advice: str = ""


_OUTCOMES: Final[Mapping[str, Reason]] = {
    "complete": Reason("The response is complete."),
    "aborted": Reason("The caller closed the connection before the end of the response."),
    "broken": Reason("The response ended before it was complete.", "Repeat the request."),
    "refused": Reason("The request was refused.", "The error message of the response has the reason."),
    "failed": Reason("The gateway or the provider failed.", "Look for the id of the request in the log."),
}


def find_reason(code: str, outcome: str = "failed") -> Reason:
    """Return the reason for the error code of a request with this outcome, in the language of the page.

    The code of a request without an error is "".
    """
    reason = REASONS.get(code)
    if reason is None and code.endswith("_not_found"):
        kind = code.removesuffix("_not_found").replace("_", " ")
        meaning = translate("The {kind} does not exist, or belongs to another account.").format(kind=kind)
        return Reason(meaning, translate("Check its id."))
    reason = reason or _OUTCOMES.get(outcome, _OUTCOMES["failed"])
    return Reason(translate(reason.meaning), translate(reason.advice))


REASONS: Final[Mapping[str, Reason]] = {
    # The gateway's own checks
    "invalid_api_key": Reason(
        "The API key is unknown, revoked or expired.", "Create a key on the page API keys, or rotate the old one."
    ),
    "missing_api_key": Reason("The request had no API key.", 'Send a key as "Authorization: Bearer KEY".'),
    "ambiguous_api_key": Reason(
        "The request had two different API keys.",
        "Send one key only; look for a key in an environment variable of the client.",
    ),
    "address_not_allowed": Reason(
        "The key may not be used from this IP address.", "Add the network of the client to the addresses of the key."
    ),
    "not_allowed": Reason(
        "The key, or the account, has no permission for this.", "Change the scopes of the key, or use another key."
    ),
    "administrator_required": Reason(
        "The administration API and x-gate-tape take keys of administrators only.",
        "Use a key of an administrator, or remove x-gate-tape.",
    ),
    "model_not_allowed": Reason("The key is limited to other models.", "Add the model to the scopes of the key."),
    "model_not_found": Reason(
        "No model of this name is in conf.",
        "Correct the name, or add the model to conf. The page Models lists all names.",
    ),
    "operation_not_supported": Reason(
        "The model exists but cannot do this operation.", "Use a model that lists the operation on the page Models."
    ),
    "not_found": Reason("What the request names does not exist.", "Check the ids in the request."),
    "unknown_route": Reason(
        "The gateway has no route with this path.",
        "Check the base URL of the client: it often has /v1 once too often, or lacks it.",
    ),
    "method_not_allowed": Reason(
        "The path exists, but not with this HTTP method.", "Use the method that the header Allow of the response names."
    ),
    "unknown_method": Reason("The request has a method that HTTP does not have.", "Correct the method in the client."),
    "unsupported_media_type": Reason(
        "The body has a content type that the route does not take, or is compressed.",
        "Send JSON, or a form where the route takes one.",
    ),
    "request_too_large": Reason("The body is larger than the limit.", "Send less, or raise limits.body_bytes in conf."),
    "headers_too_large": Reason(
        "The headers of the request are too large.", "Remove headers, such as cookies, that the gateway does not need."
    ),
    "too_many_values": Reason(
        "The JSON body has too many values.", "Send fewer messages or tools, or raise limits.body_values in conf."
    ),
    "request_timeout": Reason("The body arrived too slowly.", "Check the network of the client."),
    "invalid_http": Reason("The request was not valid HTTP.", "Check the client, or a proxy before the gateway."),
    "expectation_failed": Reason(
        "The request had an Expect header other than 100-continue.", "Remove the header in the client."
    ),
    "upgrade_required": Reason(
        "The route is for WebSockets, but the request asked for no upgrade.",
        "Use a WebSocket client, or let the proxy pass the header Upgrade.",
    ),
    "origin_not_allowed": Reason(
        "A browser at another origin opened a WebSocket.", "Add the origin to realtime.origins in conf."
    ),
    "internal_error": Reason("The gateway has a fault.", "Look for the request's id in the log, and report the error."),
    # The body of the request
    "invalid_request": Reason(
        "The body, or the request as a whole, is not valid.", "The error message of the response names the problem."
    ),
    "invalid_value": Reason(
        "A field has a value that is not allowed.", "The error message of the response names the field."
    ),
    "missing_required_parameter": Reason("A required field is missing.", "Add the field that the error message names."),
    "unsupported_parameter": Reason(
        "A field is not supported by the route or the model.", "Remove the field, or omit x-gate-strict."
    ),
    "unsupported_value": Reason(
        "A field has a value that the route or the model does not support.",
        "Use one of the values that the error message names.",
    ),
    "unsupported_tool": Reason(
        "The model does not support a tool of the request.", "Remove the tool, or use another model."
    ),
    "mutually_exclusive_parameters": Reason("Two fields exclude each other.", "Send one of them."),
    "string_above_max_length": Reason("A text is longer than the model allows.", "Shorten the text."),
    "invalid_json": Reason("The body is not valid JSON.", "Check the client: a text may be cut off or not escaped."),
    "duplicate_name": Reason("A JSON object of the body has a name twice.", "Remove one of the two."),
    "invalid_form": Reason("The form is not valid multipart/form-data.", "Let an HTTP library build the form."),
    "invalid_query": Reason("The query of the address is not valid.", "Check the parameters after the question mark."),
    "invalid_prompt": Reason("The prompt cannot be used.", "The error message of the response has the reason."),
    "invalid_base64": Reason(
        "A file in the body is not valid base64.", "Encode the bytes of the file without line breaks."
    ),
    "invalid_image": Reason("A file of the request is no image that can be read.", "Send PNG, JPEG, WebP or GIF."),
    "image_too_large": Reason("An image of the request is too large.", "Send a smaller image."),
    "wrong_media_type": Reason(
        "A file of the request is not of the kind that the route takes.", "Send a file of the right kind."
    ),
    "too_large": Reason(
        "A file that the request names by address is too large.",
        "Use a smaller file, or raise fetch.max_bytes in conf.",
    ),
    "invalid_url": Reason("A URL in the request is not valid.", "Send an http or https URL, or the file itself."),
    "private_address": Reason(
        "A URL in the request leads to a private network.", "Send the file itself, or set fetch.allow_networks in conf."
    ),
    "unreachable_url": Reason(
        "A file that the request names by address cannot be downloaded.", "Check that the gateway reaches the address."
    ),
    "content_policy_violation": Reason(
        "The provider refused the content.", "Change the prompt; the provider decides what it allows."
    ),
    "idempotency_conflict": Reason(
        "The Idempotency-Key was used before with another body.", "Use a new key for a new request."
    ),
    # Limits
    "rate_limited": Reason(
        "The key or team has used its requests or tokens of a minute.",
        "Send fewer requests, or raise the limits of the key or team.",
    ),
    "budget_exceeded": Reason(
        "A budget of the key, the user or the team is used up.",
        "Raise the budget, or wait until the day or month ends (UTC).",
    ),
    "unpriced_model": Reason(
        "The price of the model is unknown, and conf denies such models.",
        "Add the price to prices in conf, or set unpriced: allow.",
    ),
    "too_many_concurrent": Reason(
        "The key has as many open requests as it may have.", "Wait for responses, or raise its concurrent_requests."
    ),
    "too_many_connections": Reason(
        "The gateway has as many connections as it may have.",
        "Raise server.max_connections in conf, or close idle clients.",
    ),
    "too_many_sessions": Reason(
        "The key or account has too many open realtime sessions.",
        "Close sessions, or raise realtime.sessions_per_key in conf.",
    ),
    "too_many_client_secrets": Reason(
        "The account has too many client secrets that have not expired.",
        "Wait until they expire, or let them expire earlier.",
    ),
    "too_many_tasks": Reason(
        "The account has too many unfinished video tasks.",
        "Wait for tasks, or raise videos.queued_per_account in conf.",
    ),
    "overloaded": Reason(
        "The gateway had too much work: open requests, memory, memory for bodies, or delay.",
        "Repeat later; the metric tornado_gate_shed_requests_total shows which of the limits in conf was reached.",
    ),
    "target_busy": Reason(
        "The provider had as many requests of the gateway as conf allows at a time.",
        "Repeat later, raise providers.NAME.concurrency in conf, or add a second target or a fallback.",
    ),
    "storage_full": Reason(
        "The storage for files is full.",
        "Raise media.max_bytes or videos.max_bytes in conf, or wait until files expire.",
    ),
    "file_too_large": Reason(
        "The file is larger than the storage takes of one file.", "Raise media.max_bytes or videos.max_bytes in conf."
    ),
    # Providers
    "upstream_error": Reason(
        "The provider failed, or its answer could not be understood.",
        "Look at the provider's status page; a fallback model helps.",
    ),
    "upstream_refused": Reason(
        "The provider refused the request.", "The error message of the response is the provider's."
    ),
    "upstream_authentication": Reason(
        "The provider refused the gateway's own key or account.",
        "Check api_key of the provider in conf, its permissions and its balance.",
    ),
    "upstream_unreachable": Reason(
        "The gateway could not connect to the provider.",
        "Check base_url in conf, the network and the DNS of the gateway.",
    ),
    "upstream_lost": Reason(
        "The provider closed the connection before the end of the response.",
        "Repeat the request. If it happens often, look at the provider's status page.",
    ),
    "upstream_rate_limited": Reason(
        "The provider limits the gateway's account.",
        "Send less, ask the provider for more, or add a second target or a fallback.",
    ),
    "upstream_overloaded": Reason("The provider is overloaded.", "Repeat later, or add a second target or a fallback."),
    "upstream_timeout": Reason(
        "The provider sent nothing within the time limit.",
        "Repeat; raise the timeouts of the provider or the model in conf if answers take long.",
    ),
    "upstream_response_failed": Reason(
        "The provider began a response and then reported a failure.", "Repeat the request."
    ),
    "upstream_answer_too_large": Reason(
        "The provider's answer is larger than the gateway accepts.", "Ask for less in one request."
    ),
    "upstream_answer_too_complex": Reason(
        "The provider's answer is nested too deeply, or has too many values.",
        "Check base_url: the server may be none of this vendor's API.",
    ),
    "upstream_event_too_large": Reason(
        "One event of the provider's stream is larger than the gateway accepts.", "Ask for less in one request."
    ),
    "upstream_compression_too_high": Reason(
        "The provider's answer expands to too many bytes.",
        "Check base_url: the server may be none of this vendor's API.",
    ),
    "upstream_file_gone": Reason(
        "A file of the provider's answer no longer exists at the provider.", "Repeat the request."
    ),
    "upstream_file_refused": Reason(
        "The provider's answer names a file at an address that the gateway may not open.",
        "Check base_url, and fetch.allow_networks in conf.",
    ),
    "upstream_file_too_large": Reason(
        "A file of the provider's answer is too large.", "Raise fetch.max_bytes or limits.file_bytes in conf."
    ),
    "upstream_file_unreachable": Reason(
        "A file of the provider's answer cannot be downloaded.", "Check that the gateway reaches the address."
    ),
    "upstream_wrong_media_type": Reason(
        "A file of the provider's answer is not of the expected kind.", "Repeat the request; report it to the provider."
    ),
    "upstream_lost_task": Reason("The provider no longer knows the video task.", "Create the video again."),
    "upstream_no_video": Reason(
        "The provider finished the task without a video.", "Create the video again; the prompt may be refused."
    ),
    "nothing_made": Reason("The provider answered without a picture.", "Change the prompt, or repeat the request."),
    "cancelled": Reason("The task was cancelled.", "Create it again if it is needed."),
    "unavailable": Reason(
        "Every target of the model is unavailable: its circuits are open.",
        "Look at the circuits on the page Models. They close when the provider works again.",
    ),
    "shutting_down": Reason("The gateway was stopping.", "Repeat the request."),
    "blocked_by_guard": Reason(
        "A guard has blocked the request or its answer.", "The message names the reason; the guard is a plugin in conf."
    ),
    "unreadable_file": Reason(
        "A file of the request can be read in more than one way, or not at all.",
        "Send text as UTF-8, and other files with their media type and in valid base64.",
    ),
    "tool_call_missing": Reason(
        "The conversation has the result of a tool whose call it does not have.",
        "Send the model's turn with the call before its result.",
    ),
    "tool_result_missing": Reason(
        "The conversation goes on after the call of a tool without its result.",
        "Send a result for each call, directly after the turn that has the calls.",
    ),
    "tool_result_repeated": Reason(
        "The conversation has two different results of one call of a tool.", "Send one result for each call."
    ),
    "not_reviewed": Reason(
        "A guard that is not required did not review the request or its answer.",
        "Look at the guard's last failure on the page Plugins; or omit x-gate-strict.",
    ),
    "plugin_failed": Reason(
        "A plugin raised an error.", "Look at its last failure on the page Plugins, and at the log."
    ),
    "plugin_unavailable": Reason(
        "A plugin that conf requires for this request cannot work.", "Repair the plugin, or change its entry in conf."
    ),
    "provider_removed": Reason(
        "The provider that keeps the object is no longer in conf.", "Add the provider again, or use a new object."
    ),
    "object_kept_elsewhere": Reason(
        "The objects of the request are at different providers.", "Use objects of one provider in one request."
    ),
    # Stored objects and tasks
    "response_not_found": Reason(
        "The stored response does not exist, or belongs to another account.", "Check its id; stored responses expire."
    ),
    "previous_response_not_found": Reason(
        "The response to continue does not exist, or belongs to another account.",
        "Send the whole conversation instead of its id.",
    ),
    "response_not_cancellable": Reason(
        "The stored response has ended, or does not run in the background.", "Nothing is to be done."
    ),
    "conversation_not_found": Reason(
        "The conversation does not exist, or belongs to another account.", "Check its id; conversations expire."
    ),
    "conversation_too_large": Reason(
        "The conversation is larger than the gateway keeps.", "Begin a new conversation, or remove items."
    ),
    "item_not_found": Reason("The item of a conversation or response does not exist.", "Check its id."),
    "file_not_found": Reason("The file does not exist, or its address has expired.", "Create it again."),
    "file_expired": Reason("The file has expired.", "Create it again."),
    "range_not_satisfiable": Reason(
        "The request asked for a part of a file that it does not have.", "Ask for the whole file."
    ),
    "task_not_found": Reason(
        "The video task does not exist, or belongs to another account.",
        "Check its id; tasks are deleted after some time.",
    ),
    "video_not_found": Reason(
        "The video does not exist, or belongs to another account.", "Check its id; videos are deleted after some time."
    ),
    "video_not_ready": Reason("The video is not complete yet.", "Ask for the task until its status is completed."),
    "conflict": Reason("Another request changed the task at the same time.", "Repeat the request."),
    "webhooks_off": Reason(
        "The request names a webhook, and conf has switched webhooks off.", "Ask for the status of the task instead."
    ),
    "storage_unavailable": Reason(
        "The gateway cannot use its storage.", "Check the disk, the permissions of server.data_dir, and media.store."
    ),
    "task_database_unavailable": Reason(
        "The database of video tasks cannot be used.",
        "Check the PostgreSQL server; running tasks continue until it is back.",
    ),
    "video_on_other_node": Reason(
        "The file of the video is at another node of the gateway.", "Send the request to the node that made the video."
    ),
    "metrics_off": Reason(
        "The metrics are not served here.", "Set server.metrics_token or server.metrics_port in conf."
    ),
    "invalid_metrics_token": Reason("The token for the metrics is wrong.", "Send server.metrics_token of conf."),
    # Realtime sessions and WebSockets
    "session_expired": Reason(
        "The session has reached its maximum duration.", "Open a new session; realtime.minutes in conf is the limit."
    ),
    "invalid_message": Reason("A WebSocket message was not valid.", "Check the client."),
    "invalid_stream_id": Reason("The id of a stream is not valid.", "Check the client."),
    "websocket_connection_limit_reached": Reason(
        "The connection has reached its maximum duration.", "Open a new connection."
    ),
    "websocket_stream_limit_reached": Reason(
        "The connection has too many streams.", "Wait for responses, or open another connection."
    ),
    "conversation_full": Reason(
        "The conversation of the session has too many items.", "Delete items, or open a new session."
    ),
    "conversation_already_has_active_response": Reason(
        "The session already produces a response.", "Wait until it is done, or cancel it."
    ),
    "too_many_active_responses": Reason(
        "The session already produces as many responses as it may.", "Wait until one is done."
    ),
    "response_cancel_not_active": Reason("There is no response to cancel.", "Nothing is to be done."),
    "input_audio_buffer_commit_empty": Reason(
        "The client committed an audio buffer without audio.", "Send audio first."
    ),
    "input_audio_buffer_full": Reason("The audio buffer is full.", "Commit or clear the buffer earlier."),
    "audio_input_not_supported": Reason(
        "The model takes no audio.", "Use another model, or set a transcription model for the provider."
    ),
    "transcription_not_supported": Reason("The model cannot transcribe audio.", "Use another model."),
    "item_create_duplicate_id": Reason("The client created an item with an id that exists.", "Use new ids."),
    "item_create_invalid_previous_item_id": Reason(
        "The client named a previous item that does not exist.", "Check the client."
    ),
    "item_truncate_invalid_item_id": Reason("The client named an item that does not exist.", "Check the client."),
    "item_delete_invalid_item_id": Reason("The client named an item that does not exist.", "Check the client."),
    "item_retrieve_invalid_item_id": Reason("The client named an item that does not exist.", "Check the client."),
    "invalid_item_reference": Reason("The client named an item that does not exist.", "Check the client."),
    # The administration API, and commands
    "outranks_maker": Reason(
        "The request would give more rights than its own key or account has.",
        "Ask somebody with these rights, or leave out what exceeds yours.",
    ),
    "not_your_key": Reason(
        "The key belongs to somebody else.", "Ask its owner, an administrator of its team, or an administrator."
    ),
    "not_a_member": Reason(
        "The person is not a member of the team.", "Add the person to the team first, or name another team."
    ),
    "denied": Reason("The account has no right to do this.", "Ask an administrator."),
    "sign_in_failed": Reason(
        "The e-mail or the password is wrong.",
        "Try again, or ask an administrator for a link that sets a new password.",
    ),
    "too_many_attempts": Reason("There were too many attempts to sign in.", "Wait for the time in Retry-After."),
    "key_not_found": Reason(
        "There is no such key, or the caller may not see it.", "Check the id; `keys list` prints them."
    ),
    "unknown_request": Reason(
        "The ledger has no request with this id.", "Wait some seconds, or check how long the ledger keeps requests."
    ),
    "unknown_provider": Reason(
        "Conf has no such provider entry that is on.", "Check the name; the page Providers lists all."
    ),
    "unknown_plugin": Reason("There is no such plugin.", "Check the name; the page Plugins lists all."),
    "unknown_model": Reason("Conf has no such model.", "Check the name; the page Models lists all."),
    "unknown_user": Reason(
        "There is no such person, or the key is limited to another team.", "Check the id; the page Users lists all."
    ),
    "unknown_team": Reason(
        "There is no such team, or the key is limited to another one.", "Check the id; the page Teams lists all."
    ),
    "unknown_tape": Reason("There is no tape of this request.", "Check the id; older tapes are deleted."),
    "unknown_invitation": Reason("There is no such invitation.", "Check the id; an invitation is used once."),
    "key_revoked": Reason("The key is revoked already.", "Create another key."),
    "key_rotated": Reason("The key was rotated already.", "Rotate its successor, which the message names."),
    "key_expired": Reason("The key has expired.", "Create another key."),
    "ambiguous_name": Reason("Several objects have this name.", "Give the id of one; the message lists them."),
    "ambiguous_request_id": Reason(
        "Several requests have this x-request-id, which callers may choose.", "List them, and ask for one by its id."
    ),
    "already_exists": Reason("An object of this name exists already.", "Choose another name, or change that object."),
    "in_use": Reason("Other entries of conf use this one.", "Change the entries first that the message names."),
    "invalid_configuration": Reason(
        "The change would make conf invalid.", "Correct the values that the message names."
    ),
    "provider_key_required": Reason(
        "The new address of a provider entry is at another host, to which its stored keys would be sent.",
        "Send the keys for the new address in the same change.",
    ),
    "configuration_changed": Reason(
        "The configuration file was changed by somebody else in the meantime.",
        "Read its version again, and repeat the change.",
    ),
    "configuration_not_writable": Reason(
        "The gateway may not write the configuration file.",
        "Add the lines of the message by hand, or give it the permission.",
    ),
    "invalid": Reason("A value is not valid.", "The error message names the field and what is allowed."),
}
