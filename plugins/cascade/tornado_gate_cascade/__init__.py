"""cascade: a realtime voice made of three other models of the gateway, one that transcribes, any that chats, one that speaks.

The conversation itself, with its items, turns and events, is `tornado_gate.realtime.voice`; here is the mind behind it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from marshmallow import Schema, post_load

from tornado_gate import Capabilities, ProviderEntry, provider_impl
from tornado_gate.codec.fields import String
from tornado_gate.config import load_settings
from tornado_gate.errors import PluginError, UnsupportedOperation
from tornado_gate.realtime.voice import VoiceSession
from tornado_gate.types import (
    Call,
    RealtimeRequest,
    Request,
    Socket,
    StreamEvent,
    UpstreamRequest,
    UpstreamResponse,
)
from tornado_gate_cascade.mind import CascadeModels, CascadeVoiceModel

__version__ = "0.1.0"


class _CascadeSettingsSchema(Schema):
    chat = String(required=True)
    transcription = String(load_default=None, allow_none=True)
    speech = String(load_default=None, allow_none=True)
    voice = String(load_default="")

    @post_load
    def _make_models(self, loaded: dict[str, Any], **rest: Any) -> CascadeModels:
        return CascadeModels(**loaded)


@provider_impl
def configure(entry: ProviderEntry) -> Capabilities:
    """Raises ConfigError for a setting that is unknown, and for an entry that names no chat model."""
    return Capabilities(
        operations=frozenset({"realtime"}), settings=load_settings(_CascadeSettingsSchema, entry.settings)
    )


@provider_impl
def translate_request(call: Call, request: Request) -> UpstreamRequest:
    if not isinstance(request, RealtimeRequest):
        raise UnsupportedOperation(f"The model '{call.model}' holds conversations by voice, and nothing else.")
    for name in request.extra:
        call.drop_field(name)
    return UpstreamRequest(context=request)


@provider_impl
async def open_socket(call: Call, outgoing: UpstreamRequest) -> Socket:
    """A session with three models. Raises InvalidField for a session that a client secret fixes and that cannot be."""
    request = outgoing.context
    if not isinstance(request, RealtimeRequest) or call.inner is None:
        raise PluginError("cascade", "the request has lost its context, or the call its way to other models")
    models: CascadeModels = call.target.settings
    session = VoiceSession(
        CascadeVoiceModel(call.inner, models), model=call.model, session=request.session, voice=models.voice
    )
    call.closing.push_async_callback(session.close)
    return session


@provider_impl
async def translate_response(call: Call, request: Request, incoming: UpstreamResponse) -> AsyncIterator[StreamEvent]:
    """Sessions have messages of their own: nothing is ever translated here."""
    raise UnsupportedOperation(f"The model '{call.model}' holds conversations by voice, and nothing else.")
    yield  # makes it the async generator that the core expects
