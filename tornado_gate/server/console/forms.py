"""Forms of the console: the values that a visitor has typed, the errors beside them, and fields as HTML.

All texts are escaped here, so templates insert the HTML of a field as it is: ``{% raw form.text("email", "Email") %}``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from tornado.escape import xhtml_escape

from tornado_gate.accounts.errors import AccountError

Options = Iterable[tuple[str, str]]
"""Choices of a field: (value, label)."""


class Form:
    """A form. `values` are the typed texts by field, `errors` the messages by field; `error` is about the form as a
    whole.

    The first field with an error gets the focus. Without errors, the field `focus` gets it.
    """

    def __init__(self, values: Mapping[str, str] | None = None, *, prefix: str = "", focus: str = "") -> None:
        self.values = dict(values or {})
        self.errors: dict[str, str] = {}
        self.error = ""
        self._prefix = prefix
        self._focus = focus

    def add(self, error: AccountError, fields: Iterable[str]) -> None:
        """Show an error and its `others` beside their fields, or above the form if the field is not in `fields`."""
        known = set(fields)
        for each in (error, *error.others):
            if each.field in known:
                self.errors.setdefault(each.field, each.message)
            else:
                self.error = self.error or each.message

    def fill(self, name: str, value: str, *, focus: str) -> None:
        """Set the value of a field that is empty, and the field that gets the focus then."""
        if not self.values.get(name):
            self.values[name], self._focus = value, focus

    @property
    def has_errors(self) -> bool:
        return bool(self.errors or self.error)

    def has_value(self, *names: str) -> bool:
        """Return whether one of the fields has a value or an error. A collapsed part of the form is then shown open."""
        return any(self.values.get(name) or name in self.errors for name in names)

    def text(
        self, name: str, label: str, *, kind: str = "text", hint: str = "", keep: bool = True, **attributes: Any
    ) -> str:
        """Return an input with its label. `keep` false omits the typed value: for passwords."""
        value = self.values.get(name, "") if keep else ""
        control = _make_tag("input", {**self._describe_by(name, hint), "type": kind, "value": value, **attributes})
        return self._wrap_control(name, label, control, hint)

    def area(self, name: str, label: str, *, hint: str = "", rows: int = 3, **attributes: Any) -> str:
        """Return a field for several lines."""
        tag = _make_tag("textarea", {**self._describe_by(name, hint), "rows": rows, **attributes})
        return self._wrap_control(name, label, f"{tag}\n{xhtml_escape(self.values.get(name, ''))}</textarea>", hint)

    def select(self, name: str, label: str, options: Options, *, hint: str = "", **attributes: Any) -> str:
        """Return a choice of one of several values."""
        chosen = self.values.get(name, "")
        items = "".join(
            f"{_make_tag('option', {'value': value, 'selected': value == chosen})}{xhtml_escape(text)}</option>"
            for value, text in options
        )
        tag = _make_tag("select", {**self._describe_by(name, hint), **attributes})
        return self._wrap_control(name, label, f"{tag}{items}</select>", hint)

    def checks(self, name: str, label: str, options: Options, *, hint: str = "") -> str:
        """Return a choice of any of several values. The typed value separates them by spaces."""
        chosen = self.values.get(name, "").split()
        items = "".join(
            "<label>"
            + _make_tag("input", {"type": "checkbox", "name": name, "value": value, "checked": value in chosen})
            + f" {xhtml_escape(text)}</label>"
            for value, text in options
        )
        described = {key: value for key, value in self._describe_by(name, hint).items() if key == "aria-describedby"}
        group = _make_tag("fieldset", {"class": "checks", **described})
        return f"{group}<legend>{xhtml_escape(label)}</legend>{items}{self._explain_field(name, hint)}</fieldset>"

    def _describe_by(self, name: str, hint: str) -> dict[str, Any]:
        identity = self._prefix + name
        parts = [f"{identity}-hint"] if hint else []
        if name in self.errors:
            parts.append(f"{identity}-error")
        return {
            "id": identity,
            "name": name,
            "aria-describedby": " ".join(parts) or None,
            "aria-invalid": "true" if name in self.errors else None,
            "autofocus": name == (next(iter(self.errors)) if self.errors else self._focus),
        }

    def _wrap_control(self, name: str, label: str, control: str, hint: str) -> str:
        head = _make_tag("label", {"for": self._prefix + name})
        return f"<div>{head}{xhtml_escape(label)}</label>{control}{self._explain_field(name, hint)}</div>"

    def _explain_field(self, name: str, hint: str) -> str:
        identity = self._prefix + name
        html = ""
        if hint:
            html += _make_tag("p", {"class": "hint", "id": f"{identity}-hint"}) + xhtml_escape(hint) + "</p>"
        if name in self.errors:
            tag = _make_tag("p", {"class": "field-error", "id": f"{identity}-error"})
            html += tag + xhtml_escape(self.errors[name]) + "</p>"
        return html

    def summary(self) -> str:
        """Return the error about the form as a whole, which screen readers announce; "" without one."""
        if not self.error:
            return ""
        return f'<p class="notice error" role="alert">{xhtml_escape(self.error)}</p>'


def _make_tag(name: str, attributes: Mapping[str, Any]) -> str:
    """Return a start tag. True is an attribute without a value. None and False omit the attribute. ``_`` in a name
    becomes ``-``.
    """
    texts = []
    for key, value in attributes.items():
        written = key.rstrip("_").replace("_", "-")
        if value is True:
            texts.append(f" {written}")
        elif value is not None and value is not False:
            texts.append(f' {written}="{xhtml_escape(str(value))}"')
    return f"<{name}{''.join(texts)}>"
