"""The fields of ``POST /v1/images/edits``: a form, the equivalent JSON, and JSON with ``input``.

Source: openai-python 3.52, types/image_edit_params.py and image_input_reference_param.py; the interface's table of
edits. All values of a form are strings.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Final

from qa.matrix.fields import LINK, MASK, MODEL, PICTURE, SECOND, Field, Group, picture_file, put, row
from qa.matrix.images import (
    SVG,
    beside_the_input,
    of_the_answer,
    of_the_messages,
    of_the_parameters,
    of_the_picture,
)

FORM: Final[dict[str, Any]] = {"model": MODEL, "prompt": "A cat", "image": picture_file(PICTURE)}
BODY: Final[dict[str, Any]] = {
    "model": MODEL,
    "prompt": "A cat",
    "images": [{"image_url": f"data:image/png;base64,{PICTURE}"}],
}
INPUT: Final[dict[str, Any]] = {
    "model": MODEL,
    "input": {"messages": [{"role": "user", "content": [{"text": "A cat"}, {"image": LINK}]}]},
}
_DATA: Final = f"data:image/png;base64,{SECOND}"
_CONTENT: Final = "input.messages.0.content"

form, body, asked = (partial(row, base) for base in (FORM, BODY, INPUT))


def _spelled(fields: tuple[Field, ...]) -> tuple[Field, ...]:
    """Rows with numbers and booleans as strings, as in a form."""
    return tuple(
        row(_strings(field.body), field.at, _string(field.value), field.kind, idle=field.idle)
        for field in fields
        if not (field.at == "stream" and field.kind)
    )


def _strings(body: dict[str, Any] | Any) -> dict[str, Any]:
    return {name: _string(value) for name, value in body.items()}


def _string(value: Any) -> Any:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, int) else value


FORM_GROUPS: Final = (
    Group(
        "The pictures",
        (
            form("image", picture_file(SECOND), "one", instead=picture_file(PICTURE)),
            form(
                "image", [picture_file(PICTURE), picture_file(SECOND, "second.png")], "several", instead=FORM["image"]
            ),
            form("mask", picture_file(MASK, "mask.png")),
            form("markup", picture_file(SECOND, "markup.png")),
        ),
    ),
    Group(
        "The edit",
        (
            form("prompt", "mark-cat", instead="A cat"),
            *_spelled(of_the_picture(FORM)),
            form("input_fidelity", "high"),
            form("svg[model]", "mark-drawer"),
            form("svg[reasoning][effort]", "low"),
        ),
    ),
    Group("The answer", _spelled(of_the_answer(FORM))),
)

BODY_GROUPS: Final = (
    Group(
        "The pictures",
        (
            body("images.0.image_url", _DATA, "data", instead=f"data:image/png;base64,{PICTURE}"),
            body("images.0.image_url", LINK, "link", instead=f"data:image/png;base64,{PICTURE}"),
            body("images.0", {"file_id": "mark-file"}, "file_id", instead=BODY["images"][0]),
            body("images.1", {"image_url": _DATA}, "a second one"),
            body("mask", {"image_url": f"data:image/png;base64,{MASK}"}),
        ),
    ),
    Group(
        "The edit",
        (
            body("prompt", "mark-cat", instead="A cat"),
            *of_the_picture(BODY),
            body("input_fidelity", "high"),
            body("svg", SVG),
        ),
    ),
    Group("The answer", of_the_answer(BODY)),
)

INPUT_GROUPS: Final = (
    Group(
        "input",
        (
            *of_the_messages(INPUT),
            asked(f"{_CONTENT}.1.image", _DATA, "data", instead=LINK),
            row(put(INPUT, f"{_CONTENT}.1.image", _DATA), f"{_CONTENT}.1.image", LINK, "link", instead=_DATA),
            asked(f"{_CONTENT}.2", {"image": f"data:image/png;base64,{PICTURE}"}, "a second picture"),
            asked(f"{_CONTENT}.2", {"text": "mark-more"}, "a second text"),
        ),
    ),
    Group("parameters", of_the_parameters(INPUT)),
    Group("Beside them", beside_the_input(INPUT)),
)
