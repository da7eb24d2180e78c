"""The home page: its snippets run as they are shown, against the gateway that shows them."""

from __future__ import annotations

import html
import io
import os
import re
import shlex
import subprocess
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import redirect_stdout
from http.cookiejar import CookieJar
from pathlib import Path

import pytest

from qa.browser.conftest import CONF
from tests.support.gateway import Gateway
from tests.support.node import FOLDER, NODE
from tornado_gate.accounts.accounts import Accounts
from tornado_gate.config import load
from tornado_gate.config.yaml_edit import find_written
from tornado_gate.database.opening import open_database
from tornado_gate.server.console.snippets import KEY_PLACEHOLDER, is_plain, list_snippets, read_provider_example


class Home:
    """The home page of a signed-in visitor, who has a key."""

    def __init__(self, gateway: Gateway) -> None:
        self.url = gateway.url
        self._open = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(CookieJar())).open
        database = open_database(gateway.folder / "var")
        token = Accounts(database, session_seconds=60).setup.make_token()
        database.close()
        self._post(
            "/console/signup", email="ada@example.org", password="correct horse battery", setup_token=token or ""
        )
        page = self._post("/console/keys", name="snippets")
        found = re.search(r'id="new-key">([^<]+)<', page)
        assert found is not None
        self.key = found[1]

    def get(self, path: str = "/console/") -> str:
        with self._open(self.url + path) as response:
            text: str = response.read().decode()
            return text

    def _post(self, path: str, **fields: str) -> str:
        token = re.search(r'name="_xsrf" value="([^"]+)"', self.get(path))
        assert token is not None
        body = urllib.parse.urlencode({**fields, "_xsrf": token[1]}).encode()
        with self._open(self.url + path, body) as response:
            text: str = response.read().decode()
            return text

    def snippet(self, name: str) -> str:
        """The snippet as a visitor copies it, with the key filled in."""
        page = self.get(f"/console/?sdk={name}&model=local-chat")
        found = re.search(r'<code id="snippet">(.*?)</code>', page, re.DOTALL)
        assert found is not None
        text = html.unescape(found[1])
        assert KEY_PLACEHOLDER in text
        assert self.url in text
        assert self.key not in page
        return text.replace(KEY_PLACEHOLDER, self.key)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    gateway = Gateway.start(CONF, tmp_path_factory.mktemp("snippets"))
    yield Home(gateway)
    gateway.stop()


def run(*command: str, text: str = "", **rest: object) -> str:
    finished = subprocess.run(command, input=text, capture_output=True, text=True, timeout=60, check=False, **rest)  # type: ignore[call-overload]  # options of run
    assert finished.returncode == 0, finished.stderr
    output: str = finished.stdout
    return output


def test_the_curl_command_answers(home: Home) -> None:
    words = shlex.split(home.snippet("curl"))
    assert words[0] == "curl"
    headers = [words[index + 1] for index, word in enumerate(words) if word == "-H"]
    body = words[words.index("-d") + 1]
    request = urllib.request.Request(words[1], body.encode(), dict(header.split(": ", 1) for header in headers))
    with urllib.request.urlopen(request) as response:
        assert b'"content"' in response.read()


@pytest.mark.parametrize("name", [name for name in list_snippets() if name.startswith("python")])
def test_the_python_snippets_print_an_answer(home: Home, name: str) -> None:
    printed = io.StringIO()
    with redirect_stdout(printed):
        exec(compile(home.snippet(name), name, "exec"), {"__name__": "__main__"})
    assert len(printed.getvalue()) > 5


def test_the_javascript_snippet_prints_an_answer(home: Home) -> None:
    assert len(run(str(NODE), "--input-type=module", "-", text=home.snippet("javascript-openai"), cwd=FOLDER)) > 5


def test_the_variables_of_coding_agents_are_for_this_gateway(home: Home) -> None:
    output = run("sh", text=home.snippet("agents") + "\nenv\n", env={"PATH": os.environ["PATH"]})
    variables = dict(line.split("=", 1) for line in output.splitlines() if "=" in line)
    assert variables["ANTHROPIC_BASE_URL"] == variables["GOOGLE_GEMINI_BASE_URL"] == home.url
    assert variables["OPENAI_BASE_URL"] == home.url + "/v1"
    assert variables["ANTHROPIC_AUTH_TOKEN"] == variables["GATE_KEY"] == variables["OPENAI_API_KEY"] == home.key
    assert variables["OPENAI_MODEL"] == variables["ANTHROPIC_MODEL"] == "local-chat"


def test_the_lines_that_add_a_vendor_are_a_configuration(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert html.escape(read_provider_example(), quote=True).replace("&#x27;", "&#39;") in home.get()
    file = tmp_path / "gate.yaml"
    file.write_text(read_provider_example(), encoding="utf-8")
    config = load(file, {"OPENAI_API_KEY": "sk-of-the-visitor"})
    assert config.providers["my-openai"].api_key == "sk-of-the-visitor"
    assert "gpt-*" in config.models


def test_the_lines_that_add_a_vendor_work_at_the_end_of_the_shipped_file(tmp_path: Path) -> None:
    file = tmp_path / "gate.yaml"
    shipped = (Path(__file__).parents[4] / "conf/gate.yaml").read_text(encoding="utf-8")
    file.write_text(f"{shipped}\n{read_provider_example()}\n", encoding="utf-8")
    config = load(file, {"OPENAI_API_KEY": "sk-of-the-visitor"})
    assert config.plugins["openai"]
    assert config.models["gpt-*"].targets[0].provider == "my-openai"
    assert config.models["local-chat"].targets[0].provider == "local"
    assert find_written(file.read_text(encoding="utf-8"), ("plugins", "openai")) == "true"


def test_the_home_page_shows_status_models_and_steps(home: Home) -> None:
    page = home.get()
    text = " ".join(re.sub(r"<[^>]+>", " ", page).split())
    assert "Healthy" in text
    assert re.search(r"(\d+) of \1 models are available", text)
    assert re.search(r"local-tts speech – \S+ available Try it", text)
    assert "Create a key ( done )" in text or "Create a key (done)" in text
    assert "Add your vendor&#39;s key" in page or "Add your vendor's key" in page


def test_only_plain_names_of_models_stand_in_snippets(home: Home) -> None:
    assert is_plain("openai/gpt-4o:free@x+1")
    for name in ("a'b", 'a"b', "a b", "a$b", "a\\b", "a`b", "", "a\nb", "-rf", "gpt-*"):
        assert not is_plain(name)
    assert "evil" not in home.get("/console/?model=" + urllib.parse.quote("'; rm -rf evil"))
