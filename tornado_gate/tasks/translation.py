"""The translation of a video request for its provider, made when the task is created and used when the task starts.

A request is translated before its task exists, so that a request which the provider rejects is a 400 for the caller. The result
is handed to the engine in memory and saves the translation in the usual case, when this process starts the task immediately. It
is never written to the disk: its headers hold keys and signatures that expire, and conf may change before another process starts
the task. A task that has to wait, or that another process takes over, is translated again from its record.
"""

from __future__ import annotations

from tornado_gate.plugins.lanes import ProviderLane
from tornado_gate.types import Call, Data, UpstreamRequest, VideoRequest
from tornado_gate.types.call import LazyExitStack
from tornado_gate.types.value import Value, replace


class TranslatedRequest(Value, frozen=True):
    """The result `outgoing` of translating a request for `provider`.

    A lane belongs to one snapshot, so it also names the configuration.
    """

    provider: ProviderLane
    outgoing: UpstreamRequest


async def translate(call: Call, provider: ProviderLane, request: VideoRequest) -> TranslatedRequest | None:
    """Translate the request of a task that is about to be created. Raises the provider's error for it.

    Returns None when the result cannot be used after the caller's request has ended. Then it refers to a file of the caller's
    form, or the provider has opened a resource, which is closed here.
    """
    closing = LazyExitStack()
    try:
        outgoing = await provider.translate_request(replace(call, closing=closing), request)
        is_self_contained = closing.is_empty and (request.image is None or isinstance(request.image, Data))
    finally:
        if not closing.is_empty:
            await closing.aclose()
    return TranslatedRequest(provider, outgoing) if is_self_contained else None
