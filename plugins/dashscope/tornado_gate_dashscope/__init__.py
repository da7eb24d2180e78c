"""Provider for images at Alibaba Model Studio (DashScope): Qwen-Image, Wan, Z-Image.

The wire format is in `tornado_gate_openai.wire.dashscope_images`. This package has the URLs, the differences between
models, and the tasks of asynchronous models. Responses contain image URLs that are valid for one day; the plugin
downloads the images.

Source: https://www.alibabacloud.com/help/en/model-studio/qwen-image-api and the pages named in each module.
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator, Mapping
from typing import Any, Final

from tornado_gate import Capabilities, ProviderEntry, provider_impl
from tornado_gate.errors import GateError, InvalidField, UnsupportedOperation, UpstreamError
from tornado_gate.http import upstream
from tornado_gate.http.fetch.pictures import read_image
from tornado_gate.http.upstream_errors import file_error, parse_error_body
from tornado_gate.types import (
    Call,
    Data,
    FileSource,
    GeneratedImage,
    ImageRequest,
    ImageResult,
    Link,
    Request,
    StreamEvent,
    UpstreamRequest,
    UpstreamResponse,
)
from tornado_gate.types.value import replace
from tornado_gate.types.vendors import Vendor
from tornado_gate_dashscope import tasks
from tornado_gate_dashscope.address import DEFAULT_BASE_URL, GENERATION_PATH, MESSAGES_TASK_PATH
from tornado_gate_dashscope.models import BOTH_OPERATIONS, OPERATIONS_OF_MODEL, choose_task_path, fit_request
from tornado_gate_dashscope.settings import DashScopeSettings, read_settings
from tornado_gate_openai.wire.dashscope_images import (
    FailureReport,
    ImageLocation,
    make_error,
    parse_response,
    render_request,
    render_task,
)

_TASK_CONTEXT: Final = "task"


@provider_impl
def configure(entry: ProviderEntry) -> Capabilities:
    base_url, facts = read_settings(entry)
    return Capabilities(operations=BOTH_OPERATIONS, models=OPERATIONS_OF_MODEL, base_url=base_url, settings=facts)


@provider_impl
def list_vendors() -> list[Vendor]:
    return [Vendor(name="dashscope", title="Alibaba Cloud Model Studio (images)", base_url=DEFAULT_BASE_URL)]


@provider_impl
async def translate_request(call: Call, request: Request) -> UpstreamRequest:
    if not isinstance(request, ImageRequest):
        raise UnsupportedOperation(f"The model '{call.model}' supports only image generation and editing.")
    _check_images(call, request)
    facts: DashScopeSettings = call.target.settings
    whole = fit_request(call, replace(request, images=await _read_images(call, request)))
    model = call.target.upstream_model
    if not facts.uses_tasks(model):
        return _build_upstream_request(call, GENERATION_PATH, render_request(call, whole), {})
    path = choose_task_path(model, pictures=bool(whole.images))
    render = render_request if path == MESSAGES_TASK_PATH else render_task
    return _build_upstream_request(
        call, path, render(call, whole), {tasks.CREATE_TASK_HEADER: "enable"}, context=_TASK_CONTEXT
    )


def _check_images(call: Call, request: ImageRequest) -> None:
    """Check the input images. Raises an error for images that the model would ignore but charge for, and for missing
    ones.
    """
    operations = Capabilities(operations=BOTH_OPERATIONS, models=OPERATIONS_OF_MODEL).get_operations(
        call.target.upstream_model
    )
    field = request.field_name("images")
    if request.images and "image_edits" not in operations:
        raise UnsupportedOperation(
            f"The model '{call.model}' does not accept input images. Use an image editing model.", param=field
        )
    if not request.images and "images" not in operations:
        message = f"'{field}' is missing: the model '{call.model}' requires an input image to edit."
        raise InvalidField(field, message, code="missing_required_parameter")


async def _read_images(call: Call, request: ImageRequest) -> tuple[FileSource, ...]:
    """Return the input images, with form files read into memory. The vendor opens public URLs itself."""
    field = request.field_name("images")
    return tuple([await _prepare_image(call, source, field) for source in request.images])


async def _prepare_image(call: Call, source: FileSource, field: str) -> FileSource:
    if isinstance(source, Data | Link):
        return source
    picture = await read_image(call, source, field)
    text = await asyncio.to_thread(base64.b64encode, picture.data)
    return Data(media_type=picture.media_type, base64=text.decode("ascii"))


def _build_upstream_request(
    call: Call, path: str, body: Mapping[str, Any], headers: Mapping[str, str], context: str | None = None
) -> UpstreamRequest:
    """Return the outgoing request. Header names are in lower case, so that configured headers replace default ones in
    any spelling.
    """
    target = call.target
    key = {"authorization": f"Bearer {target.api_key}"} if target.api_key else {}
    own = {name.lower(): str(value) for name, value in target.headers.items()}
    return UpstreamRequest(
        url=f"{target.base_url}/{path}",
        headers={"content-type": "application/json", **key, **own, **headers},
        json=body,
        context=context,
    )


@provider_impl
async def call_upstream(call: Call, outgoing: UpstreamRequest) -> UpstreamResponse:
    if outgoing.context == _TASK_CONTEXT:
        return await tasks.run_task(call, outgoing)
    return await upstream.call_upstream(call, outgoing)


@provider_impl
def translate_upstream_error(call: Call, status: int, headers: Mapping[str, str], body: bytes) -> GateError:
    text = parse_error_body(body)
    return make_error(call, FailureReport(code=text.code, message=text.message), status, headers)


@provider_impl
async def translate_response(call: Call, request: Request, incoming: UpstreamResponse) -> AsyncIterator[StreamEvent]:
    provider = call.target.provider
    answer = parse_response(await incoming.read_json())
    if not answer.pictures:
        if answer.faults:
            raise make_error(call, answer.faults[0])
        raise UpstreamError(f"The provider '{provider}' returned a response without an image.")
    if answer.faults and not call.strict and isinstance(request, ImageRequest):
        call.drop_field(
            request.field_name("n")
        )  # fewer than requested; an error would discard images that were paid for
    images = await asyncio.gather(*(_fetch_image(call, location) for location in answer.pictures))
    yield ImageResult(images=tuple(images), usage=answer.usage, size=answer.size, text=answer.text)


async def _fetch_image(call: Call, location: ImageLocation) -> GeneratedImage:
    """Download an image from the vendor's store, without the API key. A failure is an upstream error, not the caller's."""
    provider = call.target.provider
    if call.fetcher is None:
        raise UpstreamError(f"The provider '{provider}' returned an image URL, but fetching URLs is not available.")
    try:
        fetched = await call.fetcher.fetch(location.url, kinds=("image/",), param="")
    except InvalidField as error:
        raise file_error(error.code, error.message) from error
    return GeneratedImage(data=fetched.data, media_type=fetched.media_type, revised_prompt=location.revised_prompt)
