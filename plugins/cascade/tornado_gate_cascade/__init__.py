"""cascade: a realtime voice provider built on three other models of the gateway: transcription, chat and speech.

`tornado_gate_openai.voice` manages the session with its items, turns and events; this plugin implements its voice model.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from marshmallow import Schema, post_load

from tornado_gate import Capabilities, ProviderEntry, provider_impl
from tornado_gate.codec.fields import String
from tornado_gate.config import load_settings
from tornado_gate.errors import PluginError, UnsupportedOperation
from tornado_gate.types import (
    Call,
    RealtimeRequest,
    Request,
    Socket,
    StreamEvent,
    UpstreamRequest,
    UpstreamResponse,
)
from tornado_gate.types.vendors import Vendor
from tornado_gate_cascade.voice_model import CascadeModels, CascadeVoiceModel
from tornado_gate_openai.voice import VoiceSession

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
    """Check an entry. Raises ConfigError for an unknown setting, and for an entry without a chat model."""
    return Capabilities(
        operations=frozenset({"realtime"}),
        settings=load_settings(_CascadeSettingsSchema, entry.settings),
        costs_nothing=True,
    )


@provider_impl
def list_vendors() -> list[Vendor]:
    """Return none: the plugin calls other models of the gateway."""
    return []


@provider_impl
def translate_request(call: Call, request: Request) -> UpstreamRequest:
    if not isinstance(request, RealtimeRequest):
        raise UnsupportedOperation(
            f"The model '{call.model}' supports only realtime voice sessions. Connect to /v1/realtime."
        )
    for name in request.extra:
        call.drop_field(name)
    return UpstreamRequest(context=request)


@provider_impl
async def open_socket(call: Call, outgoing: UpstreamRequest) -> Socket:
    """Open a voice session with three models. Raises InvalidField for invalid session options of a client secret."""
    request = outgoing.context
    if not isinstance(request, RealtimeRequest) or call.inner is None:
        raise PluginError("cascade", "open_socket needs a RealtimeRequest as context and call.inner")
    models: CascadeModels = call.target.settings
    session = VoiceSession(
        CascadeVoiceModel(call.inner, models), model=call.model, session=request.session, voice=models.voice
    )
    call.closing.push_async_callback(session.close)
    return session


@provider_impl
async def translate_response(call: Call, request: Request, incoming: UpstreamResponse) -> AsyncIterator[StreamEvent]:
    """Raise UnsupportedOperation. Realtime sessions use their own messages, so there is no response to translate."""
    raise UnsupportedOperation(
        f"The model '{call.model}' supports only realtime voice sessions. Connect to /v1/realtime."
    )
    yield  # makes this function an async generator, as the hook requires
