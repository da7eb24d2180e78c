"""Realtime sessions that run inside the gateway, for providers without a realtime API. A public library for plugins.

A plugin implements a `VoiceModel` and returns a `VoiceSession` with it from its hook ``open_socket``::

    @provider_impl
    async def open_socket(call: Call, outgoing: UpstreamRequest) -> Socket:
        return VoiceSession(MyVoiceModel(call), model=call.model, session=outgoing.context.session)
"""

from tornado_gate_openai.voice.audio import RATE, compute_milliseconds, measure_level, to_decibels, to_wav
from tornado_gate_openai.voice.chat import make_chat_request
from tornado_gate_openai.voice.items import AudioPart, ImagePart, Item, TextPart
from tornado_gate_openai.voice.sentences import SentenceSplitter
from tornado_gate_openai.voice.session import SessionLimits, VoiceSession
from tornado_gate_openai.voice.voice_model import (
    AudioPiece,
    CallPiece,
    CutShortPiece,
    Piece,
    TextPiece,
    Transcript,
    Turn,
    UsagePiece,
    VoiceModel,
)

__all__ = [
    "RATE",
    "AudioPart",
    "AudioPiece",
    "CallPiece",
    "CutShortPiece",
    "ImagePart",
    "Item",
    "Piece",
    "SentenceSplitter",
    "SessionLimits",
    "TextPart",
    "TextPiece",
    "Transcript",
    "Turn",
    "UsagePiece",
    "VoiceModel",
    "VoiceSession",
    "compute_milliseconds",
    "make_chat_request",
    "measure_level",
    "to_decibels",
    "to_wav",
]
