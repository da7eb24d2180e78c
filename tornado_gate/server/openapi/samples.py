"""Examples of requests as code: curl, Python with httpx, JavaScript with fetch. The key is in the variable GATE_KEY."""

from __future__ import annotations

import json
import pprint
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote, urlencode

from tornado_gate.types.value import Value, field

KEY_VARIABLE = "GATE_KEY"


class Sample(Value, frozen=True, kw_only=True):
    """A complete request; `path` has no placeholders. `needs` describes in words the object that must exist for it."""

    name: str
    summary: str
    method: str
    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    body: Any = None
    fields: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)
    answer: str = ""
    public: bool = False
    needs: str = ""

    @property
    def address(self) -> str:
        """Return the path with its query, percent-encoded."""
        path = quote(self.path, safe="/:{}")
        return f"{path}?{urlencode(self.query)}" if self.query else path

    @property
    def is_form(self) -> bool:
        return bool(self.files or (self.fields and self.body is None))


def render_samples(sample: Sample, base_url: str) -> list[dict[str, str]]:
    """Return the sample in three languages, as the items of ``x-codeSamples``."""
    return [
        {"lang": "Shell", "label": "curl", "source": _render_curl(sample, base_url)},
        {"lang": "Python", "label": "Python", "source": _render_python(sample, base_url)},
        {"lang": "JavaScript", "label": "JavaScript", "source": _render_javascript(sample, base_url)},
    ]


def _render_curl(sample: Sample, base_url: str) -> str:
    parts = [f"curl '{base_url}{sample.address}'"]
    if sample.method not in ("GET", "POST") or (sample.method == "POST" and sample.body is None and not sample.is_form):
        parts[0] = f"curl -X {sample.method} '{base_url}{sample.address}'"
    if not sample.public:
        parts.append(f'-H "Authorization: Bearer ${KEY_VARIABLE}"')
    parts += [f"-H '{name}: {value}'" for name, value in sample.headers.items()]
    if sample.body is not None:
        text = json.dumps(sample.body, indent=2, ensure_ascii=False).replace("'", "'\\''")
        parts += ["-H 'Content-Type: application/json'", f"-d '{text}'"]
    parts += [f"-F '{name}={value}'" for name, value in sample.fields.items()]
    parts += [f"-F '{name}=@{value}'" for name, value in sample.files.items()]
    if sample.answer:
        parts.append(f"-o {sample.answer}")
    return " \\\n  ".join(parts)


def _render_python(sample: Sample, base_url: str) -> str:
    arguments = [f'"{base_url}{sample.address}"']
    headers = [] if sample.public else [f'"Authorization": f"Bearer {{os.environ[\'{KEY_VARIABLE}\']}}"']
    headers += [f"{name!r}: {value!r}" for name, value in sample.headers.items()]
    if headers:
        arguments.append("headers={" + ", ".join(headers) + "}")
    if sample.body is not None:
        arguments.append("json=" + _indent_lines(pprint.pformat(sample.body, width=90, sort_dicts=False)))
    if sample.fields:
        arguments.append(f"data={dict(sample.fields)!r}")
    if sample.files:
        arguments.append(
            "files={" + ", ".join(f'"{name}": open("{file}", "rb")' for name, file in sample.files.items()) + "}"
        )
    imports = "import httpx\n" if sample.public else "import os\n\nimport httpx\n"
    call = f"response = httpx.{sample.method.lower()}(\n    " + ",\n    ".join(arguments) + ",\n    timeout=600,\n)"
    return f"{imports}\n{call}\nprint(response.status_code, response.text[:1000])"


def _indent_lines(text: str) -> str:
    return text.replace("\n", "\n    ")


def _render_javascript(sample: Sample, base_url: str) -> str:
    headers = [] if sample.public else [f"Authorization: `Bearer ${{process.env.{KEY_VARIABLE}}}`"]
    headers += [f"{json.dumps(name)}: {json.dumps(value)}" for name, value in sample.headers.items()]
    lines: list[str] = []
    if sample.is_form:
        lines = ["import { openAsBlob } from 'node:fs';", "", "const form = new FormData();"]
        lines += [f"form.append({json.dumps(name)}, {json.dumps(value)});" for name, value in sample.fields.items()]
        for name, file in sample.files.items():
            shown = json.dumps(file)
            lines.append(f"form.append({json.dumps(name)}, await openAsBlob({shown}), {shown});")
    elif sample.body is not None:
        headers.append("'Content-Type': 'application/json'")
    options = [] if sample.method == "GET" else [f"method: '{sample.method}'"]
    options += [f"headers: {{ {', '.join(headers)} }}"] if headers else []
    if sample.is_form:
        options.append("body: form")
    elif sample.body is not None:
        text = json.dumps(sample.body, indent=2, ensure_ascii=False).replace("\n", "\n  ")
        options.append(f"body: JSON.stringify({text})")
    lines.append(f"const response = await fetch('{base_url}{sample.address}', {{")
    lines += [f"  {option}," for option in options]
    return "\n".join([*lines, "});", "console.log(response.status, await response.text());"])
