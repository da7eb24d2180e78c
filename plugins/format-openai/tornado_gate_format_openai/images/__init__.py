"""Pictures for callers: ``/v1/images/generations``, ``/v1/images/edits`` and ``/v1/images/variations``.

A body is the vendor's (``prompt`` and its fields; edits as a form), or has ``input`` and ``parameters`` as models of the
Tongyi kind are asked: every model takes both. What a model's family allows is the table `openai_images.families`.
"""

from __future__ import annotations

from typing import Final

from tornado_gate.types import Call, ImageRequest, WireRequest
from tornado_gate.wire import dashscope_images, openai_images
from tornado_gate_format_openai import paths
from tornado_gate_format_openai.images.edits import check_input_edit, check_vendor_edit, no_variations
from tornado_gate_format_openai.images.input_style import check_input_generation, is_input_style
from tornado_gate_format_openai.images.lane import forward, forwarded
from tornado_gate_format_openai.images.replies import reply
from tornado_gate_format_openai.images.reply_options import asked
from tornado_gate_format_openai.images.rules import check_input_rules, check_rules
from tornado_gate_format_openai.images.schemas import check_generation

__all__ = ["ROUTES", "forward", "forwarded", "parse", "reply"]


ROUTES: Final = paths.IMAGES


async def parse(call: Call, wire: WireRequest) -> ImageRequest:
    """The common request. Raises InvalidField, and UnsupportedOperation for variations."""
    if wire.route.path == paths.VARIATIONS:
        raise no_variations(call)
    family = openai_images.family_of(call)
    edits = wire.route.operation == "image_edits"
    if is_input_style(wire.json, edits=edits, form=wire.form):
        body = wire.json
        if edits:
            await check_input_edit(body)
        else:
            check_input_generation(body)
        check_input_rules(family, body)
        return asked(call, dashscope_images.parse_request(body), body, family, "input")
    if edits:
        checked = await check_vendor_edit(call, wire)
        check_rules(family, checked.body)
        return asked(call, openai_images.parse_edit(checked.body, checked.files), checked.body, family, "prompt")
    body = {**wire.json, "model": call.model}
    check_generation(body)
    check_rules(family, body)
    return asked(call, openai_images.parse_request(body), body, family, "prompt")
