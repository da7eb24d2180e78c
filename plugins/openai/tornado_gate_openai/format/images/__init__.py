"""The image routes: ``/v1/images/generations``, ``/v1/images/edits`` and ``/v1/images/variations``.

A body has the vendor's fields (``prompt`` and others; edits also as a form), or ``input`` and ``parameters`` as for Tongyi
models. Every model accepts both. The table `openai_images.families` has the limits of each model family.
"""

from __future__ import annotations

from typing import Final

from tornado_gate.types import Call, ImageRequest, WireRequest
from tornado_gate_openai.fields.image_inputs import check_input_generation, is_input_style
from tornado_gate_openai.fields.images import check_generation
from tornado_gate_openai.format import paths
from tornado_gate_openai.format.images.edits import check_input_edit, check_vendor_edit, variations_unsupported_error
from tornado_gate_openai.format.images.lane import forward, forward_response
from tornado_gate_openai.format.images.replies import reply
from tornado_gate_openai.format.images.reply_options import add_reply_options
from tornado_gate_openai.format.images.rules import check_input_rules, check_rules
from tornado_gate_openai.wire import dashscope_images, images

__all__ = ["ROUTES", "forward", "forward_response", "parse", "reply"]


ROUTES: Final = paths.IMAGE_ROUTES


async def parse(call: Call, wire: WireRequest) -> ImageRequest:
    """Parse the body or form into the common request. Raises InvalidField, and UnsupportedOperation for variations."""
    if wire.route.path == paths.VARIATIONS_PATH:
        raise variations_unsupported_error(call)
    family = images.find_family(call)
    edits = wire.route.operation == "image_edits"
    if is_input_style(wire.json, edits=edits, form=wire.form):
        body = wire.json
        if edits:
            await check_input_edit(body)
        else:
            check_input_generation(body)
        check_input_rules(family, body)
        return add_reply_options(call, dashscope_images.parse_request(body), body, family, "input")
    if edits:
        checked = await check_vendor_edit(call, wire)
        check_rules(family, checked.body)
        return add_reply_options(call, images.parse_edit(checked.body, checked.files), checked.body, family, "prompt")
    body = {**wire.json, "model": call.model}
    check_generation(body)
    check_rules(family, body)
    return add_reply_options(call, images.parse_request(body), body, family, "prompt")
