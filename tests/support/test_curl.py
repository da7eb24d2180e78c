"""The stand-in for curl does what curl does with the command lines that docs and pages print."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from tests.support.curl import STAND_IN, find_path_with_curl


class EchoHandler(BaseHTTPRequestHandler):
    """Answers with what was asked; /missing with 404."""

    def do_GET(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        body = self.rfile.read(length).decode()
        kind, mark = self.headers.get("Content-Type"), self.headers.get("X-Mark")
        text = f"{self.command} {self.path} {kind} {mark} {body}".encode()
        self.send_response(404 if self.path == "/missing" else 200)
        self.send_header("Content-Length", str(len(text)))
        self.send_header("X-Said", "yes")
        self.end_headers()
        self.wfile.write(text)

    do_POST = do_DELETE = do_GET

    def log_message(self, format: str, *_: object) -> None:  # the name of the base class
        pass


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), EchoHandler)
    thread = Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


PROGRAMS = [str(STAND_IN), *([found] if (found := shutil.which("curl")) else [])]
"""The machine's own curl shows that the table is true."""

JSON = ["-H", "Content-Type: application/json"]
CASES: list[tuple[list[str], int, str]] = [
    (["-s", "{}/a?b=c"], 0, "GET /a?b=c None None "),
    (["-sS", "-H", "X-Mark: m", "{}"], 0, "GET / None m "),
    (["-sN", "{}", "-d", "x=1"], 0, "POST / application/x-www-form-urlencoded None x=1"),
    (["-sf", "{}", *JSON, "-d", '{"é": 1}'], 0, 'POST / application/json None {"é": 1}'),
    (["-s", "-X", "DELETE", "{}/a"], 0, "DELETE /a None None "),
    (["-s", "-XDELETE", "{}/a"], 0, "DELETE /a None None "),
    (["-s", "{}", "--data", "a", "-d", "b"], 0, "POST / application/x-www-form-urlencoded None a&b"),
    (["-s", "{}", "-w", "\\n%{http_code}\\n"], 0, "GET / None None \n200\n"),
    (["-s", "{}/missing"], 0, "GET /missing None None "),
    (["-sf", "{}/missing"], 22, ""),
    (["-s", "{}", "--data-binary", "@-"], 0, "POST / application/x-www-form-urlencoded None two\nlines\n"),
    (["-s", "{}", "-d", "@-"], 0, "POST / application/x-www-form-urlencoded None twolines"),
    (["--there-is-no-such-option", "{}"], 2, ""),
]


@pytest.mark.parametrize("program", PROGRAMS)
def test_command_lines_have_the_results_of_curl(program: str, address: str) -> None:
    def run(words: list[str]) -> tuple[int, str]:
        command = [program, *(word.replace("{}", address, 1) if word.startswith("{}") else word for word in words)]
        done = subprocess.run(command, input="two\nlines\n", capture_output=True, text=True, check=False)
        return done.returncode, done.stdout

    results = {" ".join(words): run(words) for words, _, _ in CASES}

    assert results == {" ".join(words): (code, text) for words, code, text in CASES}


@pytest.mark.parametrize("program", PROGRAMS)
def test_the_head_of_a_response_and_a_file_are_written(program: str, address: str, tmp_path: Path) -> None:
    head = subprocess.run([program, "-si", address], capture_output=True, check=True).stdout
    subprocess.run([program, "-sS", "-o", "got.txt", f"{address}/file"], cwd=tmp_path, check=True)

    assert b" 200 OK\r\n" in head
    assert b"\r\nX-Said: yes\r\n" in head
    assert head.endswith(b"\r\n\r\nGET / None None ")
    assert (tmp_path / "got.txt").read_text() == "GET /file None None "


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_server_that_is_not_there_is_exit_code_7(program: str) -> None:
    done = subprocess.run([program, "-sS", "http://127.0.0.1:1/"], capture_output=True, text=True, check=False)

    assert done.returncode == 7
    assert done.stderr.startswith("curl: (7) ")


def test_the_stand_in_is_found_where_there_is_no_curl(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))

    assert shutil.which("curl", path=find_path_with_curl()) == str(STAND_IN)
