"""A plugin is installed and upgraded, by pip, while the gateway runs."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import sysconfig
import venv
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.support.gateway import Gateway
from tests.support.process import Child

KEY = "key-of-the-upgrade-test"
CONF = """
plugins: {{ {plugins} }}
providers: {providers}
models: {models}
keys:
  - {{name: test, key: "{key}"}}
  - {{name: admin, key: "admin-{key}", role: administrator}}
"""
PLUGIN = """
from tornado_gate import events, provider_impl, types
from tornado_gate_acme import words


@provider_impl
def translate_request(call, request):
    return types.UpstreamRequest()


@provider_impl
async def call_upstream(call, outgoing):
    return types.UpstreamResponse(chunks=types.BufferedBody(b""))


@provider_impl
def translate_response(call):
    choice = types.Choice(parts=(types.Text(text=words.TEXT),), reason="stop")
    return events.iterate_events(events.replay(types.ChatResult(model="m", choices=(choice,))))
"""
SETUP = """
from setuptools import setup
setup(name="tornado-gate-acme", version="{version}", packages=["tornado_gate_acme"],
      entry_points={{"tornado_gate": ["acme = tornado_gate_acme"]}})
"""


class Environment:
    """A virtual environment that also sees the packages of this one."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        venv.create(folder / "venv", with_pip=False)
        self.python = str(folder / "venv" / "bin" / "python")
        variables = {"base": str(folder / "venv"), "platbase": str(folder / "venv")}
        site = Path(sysconfig.get_path("purelib", vars=variables))
        lines = [f"import site; site.addsitedir({place!r})" for place in [sysconfig.get_path("purelib")]]
        (site / "tests.pth").write_text("\n".join(lines), encoding="utf-8")

    def install(self, version: str) -> None:
        """pip install the plugin in this version, which answers with its version."""
        package = self.folder / version / "tornado_gate_acme"
        package.mkdir(parents=True)
        (package / "__init__.py").write_text(PLUGIN, encoding="utf-8")
        (package / "words.py").write_text(f'TEXT = "this is {version}"', encoding="utf-8")
        (package.parent / "setup.py").write_text(SETUP.format(version=version), encoding="utf-8")
        command = [sys.executable, "-m", "pip", "--python", self.python, "install", "--quiet", "--upgrade", "--no-deps"]
        subprocess.run(
            [*command, "--no-build-isolation", "--no-index", str(package.parent)], check=True, capture_output=True
        )

    def list_plugins(self, gateway: Gateway) -> dict[str, dict[str, str]]:
        """What `plugins list` prints beside the running gateway, by plugin."""
        places = ["--conf", str(gateway.folder / "gate.yaml"), "--data-dir", str(gateway.folder / "var"), "--json"]
        command = [self.python, "-m", "tornado_gate", "plugins", "list", *places]
        printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        return {row["name"]: row for row in json.loads(printed)}


@pytest.fixture
def environment(tmp_path: Path) -> Environment:
    return Environment(tmp_path)


@pytest.fixture
def gateway(environment: Environment) -> Iterator[Gateway]:
    folder = environment.folder
    write_conf(folder, plugins="acme: false", providers="{}", models="{}")
    command = [environment.python, "-m", "tornado_gate", "serve", "--port", "0"]
    child = Child(
        [*command, "--conf", str(folder / "gate.yaml"), "--data-dir", str(folder / "var")], folder=folder, forked=False
    )
    yield Gateway(child, child.wait_for_line(r"^tornado-gate: serving (http://\S+)")[1], folder)
    child.stop()


def write_conf(folder: Path, **parts: str) -> None:
    (folder / "gate.yaml").write_text(CONF.format(key=KEY, **parts), encoding="utf-8")


def get(gateway: Gateway, path: str) -> httpx.Response:
    headers = {"authorization": f"Bearer admin-{KEY}"}
    return httpx.get(gateway.url + path, headers=headers, trust_env=False, timeout=30)


def send_request(gateway: Gateway) -> str:
    body = {"model": "m", "messages": [{"role": "user", "content": "Hi"}]}
    headers = {"authorization": f"Bearer {KEY}"}
    url = f"{gateway.url}/v1/chat/completions"
    response = httpx.post(url, json=body, headers=headers, trust_env=False, timeout=30)
    return str(response.json()["choices"][0]["message"]["content"])


def reload(gateway: Gateway, number: int) -> None:
    gateway.child.process.send_signal(signal.SIGHUP)
    gateway.child.wait_for_line(rf"configuration {number} is in force")


@pytest.mark.qa
def test_a_reload_finds_a_new_plugin_and_keeps_the_running_version_of_an_upgraded_one(
    environment: Environment, gateway: Gateway
) -> None:
    environment.install("1.0")
    write_conf(gateway.folder, plugins="acme: true", providers="{acme: {plugin: acme}}", models="{m: {provider: acme}}")
    reload(gateway, 2)
    assert send_request(gateway) == "this is 1.0"
    assert environment.list_plugins(gateway)["acme"]["update"] == ""

    environment.install("1.1")
    reload(gateway, 3)
    update = "installed 1.1, running 1.0: restart the gateway (SIGUSR2 starts a new one without refusing a request)"
    gateway.wait_for_log(f"plugin 'acme': {update}")
    assert send_request(gateway) == "this is 1.0"
    assert environment.list_plugins(gateway)["acme"]["update"] == update
    shown = {row["name"]: row for row in get(gateway, "/admin/v1/plugins").json()["data"]}
    assert (shown["acme"]["version"], shown["acme"]["update"], shown["acme"]["state"]) == ("1.0", update, "on")
