"""Checks of edits and variations. Type and size of each image are checked before any decoder reads it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tornado_gate.codec.checks import raise_invalid, raise_missing
from tornado_gate.codec.fields import parse_form
from tornado_gate.codec.value_limits import check_for_upstream
from tornado_gate.errors import UnsupportedOperation
from tornado_gate.http.fetch import pictures
from tornado_gate.types import Call, FileSource, Upload, WireRequest
from tornado_gate.types.value import Value
from tornado_gate_openai.fields.image_inputs import check_input_of_edit, iterate_images
from tornado_gate_openai.fields.images import (
    MAX_IMAGES,
    EditFormSchema,
    VariationFormSchema,
    check_edit_form,
    check_json_edit,
    check_variation,
)
from tornado_gate_openai.wire.images import RenamedUpload, parse_edit, sort_files


class CheckedEdit(Value, frozen=True, kw_only=True):
    """A checked edit: the body (numbers of a form are converted), and the files with the media types of their contents."""

    body: Mapping[str, Any]
    files: tuple[Upload, ...] = ()

    def has_file_ids(self) -> bool:
        """Return whether an image is referenced by a `file_id` of the upstream."""
        references = [*self.body.get("images", ()), self.body.get("mask") or {}]
        return not self.files and any("file_id" in reference for reference in references)


async def check_vendor_edit(call: Call, wire: WireRequest, *, for_upstream: bool = False) -> CheckedEdit:
    """Check an edit with the vendor's fields, sent as a form or as JSON. Raises InvalidField.

    `for_upstream`: unknown words and exceeded limits are left to the upstream.
    """
    check = check_for_upstream if for_upstream else _call_check
    if wire.form:
        body = parse_form(EditFormSchema, wire.json) | {"model": call.model}
        check(check_edit_form, body)
        return CheckedEdit(body=body, files=await _check_files(wire))
    body = {**wire.json, "model": call.model}
    check(check_json_edit, body)
    checked = CheckedEdit(body=body)
    if not checked.has_file_ids():
        request = parse_edit(body)
        for index, source in enumerate(request.images):
            await pictures.check(source, f"images.{index}.image_url")
        if request.mask is not None:
            await pictures.check(request.mask, "mask.image_url")
            await _check_same_size(call, request.images[0], request.mask, "mask.image_url")
    return checked


def _call_check(check: Callable[[Mapping[str, Any]], None], body: Mapping[str, Any]) -> None:
    check(body)


async def check_variation_form(call: Call, wire: WireRequest) -> CheckedEdit:
    """Check the form of a variation, which has one image. Raises InvalidField."""
    body = parse_form(VariationFormSchema, wire.json) | {"model": call.model}
    check_variation(body)
    return CheckedEdit(body=body, files=await _check_files(wire, most=1))


async def check_input_edit(body: Mapping[str, Any]) -> None:
    """Check an edit with ``input`` and ``parameters``, and its images. Raises InvalidField."""
    check_input_of_edit(body)
    for index, (value, path) in enumerate(iterate_images(body)):
        if index >= MAX_IMAGES:
            raise_invalid("input.messages", f"has more than {MAX_IMAGES} images; at most {MAX_IMAGES} are allowed")
        await pictures.check(pictures.parse_image_source(value, path), path)


def variations_unsupported_error(call: Call) -> UnsupportedOperation:
    """Return the error for a model that does not support variations."""
    return UnsupportedOperation(f"The model '{call.model}' does not support variations. Use /v1/images/edits.")


async def _check_files(wire: WireRequest, most: int = MAX_IMAGES) -> tuple[Upload, ...]:
    images, masks, others = sort_files(wire.files)
    if not images:
        raise_missing("image")
    if len(images) > most:
        raise_invalid("image", f"has {len(images)} files; at most {most} {'is' if most == 1 else 'are'} allowed")
    if len(masks) > 1:
        raise_invalid("mask", f"has {len(masks)} files; 1 is allowed")
    seen: list[Upload] = []
    sizes: list[tuple[int, int]] = []
    for index, file in enumerate([*images, *masks]):
        param = "mask" if index >= len(images) else "image" if len(images) == 1 else f"image.{index}"
        looked = await pictures.check(file, param)
        assert looked is not None, "a file of a form is no address"
        media_type, width, height = looked
        seen.append(RenamedUpload(of=file, field=file.field, media_type=media_type))
        sizes.append((width, height))
    if masks:
        _require_same_size(sizes[0], sizes[-1], "mask")
    return (*seen, *others)


async def _check_same_size(call: Call, image: FileSource, mask: FileSource, param: str) -> None:
    """Check that image and mask have the same size. Images given by URL are not fetched, so the upstream checks them."""
    looked = [await pictures.check(source, param) for source in (image, mask)]
    sizes = [header[1:] for header in looked if header is not None]
    if len(sizes) == len(looked):
        _require_same_size(sizes[0], sizes[1], param)


def _require_same_size(image: Sequence[int], mask: Sequence[int], param: str) -> None:
    if tuple(image) != tuple(mask):
        sizes = f"{mask[0]}x{mask[1]} pixels; the first image has {image[0]}x{image[1]}, and both must be equal"
        raise_invalid(param, f"has {sizes}")
