"""Conversations by voice that the gateway holds itself, for providers whose models are no realtime models. Public, for plugins.

A plugin writes a `Mind` and gives a `VoiceSession` of it back from its hook ``open_socket``::

    @provider_impl
    async def open_socket(call: Call, outgoing: UpstreamRequest) -> Socket:
        return VoiceSession(MyMind(call), model=call.model, session=outgoing.context.session)
"""

from tornado_gate.realtime.voice.audio import RATE, decibels, level, milliseconds, to_wav
from tornado_gate.realtime.voice.chat import chat_request
from tornado_gate.realtime.voice.items import Item, Picture, Sound, Words
from tornado_gate.realtime.voice.mind import Called, CutShort, Mind, Piece, Said, Spent, Spoke, Transcript, Turn
from tornado_gate.realtime.voice.sentences import Sentences
from tornado_gate.realtime.voice.session import Limits, VoiceSession

__all__ = [
    "RATE",
    "Called",
    "CutShort",
    "Item",
    "Limits",
    "Mind",
    "Picture",
    "Piece",
    "Said",
    "Sentences",
    "Sound",
    "Spent",
    "Spoke",
    "Transcript",
    "Turn",
    "VoiceSession",
    "Words",
    "chat_request",
    "decibels",
    "level",
    "milliseconds",
    "to_wav",
]
