"""A gateway that was installed from wheels, and what is asked of it."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from types import TracebackType
from typing import Self

import httpx

from tests.support.process import Child

CHAT = {"model": "local-chat", "messages": [{"role": "user", "content": "Say hello"}]}
CONF = """
plugins: {local: true}
providers: {local: {plugin: local}}
models: {local-chat: {provider: local}}
"""


class Served:
    """The program `bin/tornado-gate` while it serves; its configuration and data are below `folder`."""

    def __init__(self, program: Path, folder: Path) -> None:
        self._program = str(program / "tornado-gate")
        self._conf, self._data = folder / "gate.yaml", folder / "var"
        self._conf.write_text(CONF)
        self._folder = folder
        self.key = ""

    def __enter__(self) -> Self:
        options = ["--conf", str(self._conf), "--data-dir", str(self._data), "--port", "0"]
        self._child = Child([self._program, "serve", *options], folder=self._folder)
        self._url = self._child.wait_for_line(r"^tornado-gate: serving (http://\S+)")[1]
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        output = self._child.stop()
        assert "Traceback" not in output, output

    def use_first_key(self) -> None:
        """Take the key that the first start prints once."""
        output = self._child.wait_for_output("Bearer ")
        self.key = output.partition("Bearer ")[2].split("'")[0].split('"')[0]

    def chat(self) -> None:
        answer = self._post(CHAT).json()
        assert answer["choices"][0]["message"]["content"], answer

    def stream_chat(self) -> None:
        assert self._post({**CHAT, "stream": True}).text.endswith("data: [DONE]\n\n")

    def open_console(self) -> None:
        assert "Sign up" in httpx.get(f"{self._url}/console/signup", timeout=60, trust_env=False).text

    def count_requests(self) -> int:
        """Return the requests in the usage ledger, as the command prints them."""
        options = ["--conf", str(self._conf), "--data-dir", str(self._data), "--json"]
        command = [self._program, "usage", *options]
        output = subprocess.run(command, capture_output=True, text=True, check=True, cwd=self._folder).stdout
        rows = json.loads(output)
        return sum(row["requests"] for row in (rows["data"] if isinstance(rows, dict) else rows))

    def _post(self, body: object) -> httpx.Response:
        headers = {"Authorization": f"Bearer {self.key}"}
        response = httpx.post(
            f"{self._url}/v1/chat/completions", json=body, headers=headers, timeout=60, trust_env=False
        )
        assert response.status_code == 200, response.text
        return response
