"""A running gateway keeps its configuration, whatever is written into the file: no caller notices. The installed command."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from tests.support.gateway import Gateway, run_command

KEY = "test-key-of-reloads"
CONF = f"""
plugins: {{local: true}}
providers:
  local: {{plugin: local}}
models:
  local-chat: {{provider: local}}
  local-embed: {{provider: local}}
keys:
  - {{name: test, key: {KEY}}}
"""


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    gateway = Gateway.start(CONF, tmp_path_factory.mktemp("reloads"))
    yield gateway
    gateway.stop()


def models(gateway: Gateway, key: str = KEY) -> httpx.Response:
    headers = {"Authorization": f"Bearer {key}"}
    return httpx.get(gateway.url + "/v1/models", headers=headers, trust_env=False, timeout=30)


def reload_with(gateway: Gateway, text: str) -> None:
    """Write the file in place and ask for a reload, so that the test need not wait for the watch."""
    (gateway.folder / "gate.yaml").write_text(text, encoding="utf-8")
    gateway.child.process.send_signal(signal.SIGHUP)


def before(section: str) -> str:
    """The file as it is when everything from a section on is lost."""
    return CONF[: CONF.index(f"\n{section}:") + 1]


FAULTS = {
    "empty": ("", "is empty"),
    "comments": ("# nothing here\n\n# yet\n", "is empty"),
    "mapping": ("{}\n", "is empty"),
    "null": ("~\n", "is empty"),
    "not yaml": ("models: {a: [}\n", "is not valid YAML"),
    "text": ("half a file", "must be a mapping with the sections"),
    "no keys": (before("keys"), "the section 'keys' is missing, which has 1 entries in the running configuration"),
    "no models": (before("models"), "the section 'models' is missing, which has 2 entries"),
    "no providers": (before("providers"), "the section 'providers' is missing"),
    "keys without a value": (before("keys") + "keys:\n", "write 'keys: []'"),
    "in the middle of a key": (CONF[: CONF.index(KEY) - 5], "is not valid YAML"),
    "unknown key": (CONF + "sever: {}\n", "sever: unknown key; did you mean 'server'?"),
    "unknown plugin": (CONF.replace("{plugin: local}", "{plugin: lcoal}"), "unknown plugin 'lcoal'; did you mean 'local'?"),
    "not installed": (CONF.replace("local: true", "local: true, nothing: true"), "plugins.nothing: this plugin is not installed"),
    "unknown operation": (
        CONF.replace(f"key: {KEY}", f"key: {KEY}, operations: [chatt]"),
        "keys.0.operations.0: unknown operation 'chatt'; did you mean 'chat'?",
    ),
    "unknown default": (
        CONF + "defaults: {imagess: local-chat}\n",
        "defaults.imagess: unknown operation 'imagess'; did you mean 'images'?",
    ),
    "unmatched glob": (CONF.replace(f"key: {KEY}", f'key: {KEY}, models: ["gpt*"]'), "keys.0.models.0: 'gpt*' matches no model"),
    "weights": (
        CONF.replace("local-chat: {provider: local}", "local-chat: {targets: [{provider: local, weight: 0}]}"),
        "all weights are 0",
    ),
    "unset variable": (CONF.replace(KEY, '"${NOT_SET_ANYWHERE}"'), "the environment variable NOT_SET_ANYWHERE is not set"),
}  # fmt: skip


@pytest.mark.parametrize("fault", list(FAULTS))
def test_a_faulty_file_is_not_put_in_force(gateway: Gateway, fault: str) -> None:
    text, expected = FAULTS[fault]
    reload_with(gateway, text)
    gateway.child.wait_for_line(rf"configuration not reloaded: .*{re.escape(expected)}")
    assert [model["id"] for model in models(gateway).json()["data"]] == ["local-chat", "local-embed"]


def make_folder(path: Path) -> None:
    path.mkdir()


def make_dangling_link(path: Path) -> None:
    path.symlink_to("nowhere.yaml")


def make_device(path: Path) -> None:
    path.symlink_to("/dev/zero")


def write_latin(path: Path) -> None:
    path.write_bytes(CONF.replace("name: test", "name: caf\u00e9").encode("latin-1"))


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (make_folder, "cannot be read: Is a directory"),
        (make_dangling_link, "cannot be read: No such file or directory"),
        (write_latin, "has a byte that is not UTF-8"),
        (os.mkfifo, "is not a regular file"),
        (make_device, "is not a regular file"),
    ],
)
def test_what_is_no_readable_file_is_not_put_in_force_and_the_gateway_stays_ready(
    gateway: Gateway, make: Callable[[Path], None], expected: str
) -> None:
    failed = count_failed_reloads(gateway)
    path, kept = gateway.folder / "gate.yaml", gateway.folder / "gate.yaml.kept"
    path.rename(kept)
    make(path)
    gateway.child.process.send_signal(signal.SIGHUP)
    gateway.child.wait_for_line(rf"configuration not reloaded: .*{expected}")
    assert models(gateway).status_code == 200
    assert httpx.get(gateway.url + "/readyz", trust_env=False).status_code == 200
    assert count_failed_reloads(gateway) > failed
    path.rmdir() if path.is_dir() else path.unlink()
    kept.rename(path)


def count_failed_reloads(gateway: Gateway) -> float:
    text = httpx.get(gateway.url + "/metrics", trust_env=False).text
    found = re.search(r'^tornado_gate_reloads_total\{result="failed"\} ([\d.]+)$', text, re.MULTILINE)
    return float(found[1]) if found else 0.0


@pytest.mark.qa
def test_a_config_map_of_kubernetes_is_read_when_its_link_is_replaced(gateway: Gateway) -> None:
    folder = gateway.folder
    for name, text in (("..old", CONF), ("..new", CONF.replace("local-embed", "local-tts"))):
        (folder / name).mkdir()
        (folder / name / "gate.yaml").write_text(text, encoding="utf-8")
    (folder / "..data").symlink_to("..old")
    (folder / "link").symlink_to("..data/gate.yaml")
    (folder / "link").rename(folder / "gate.yaml")
    gateway.child.wait_for_line(r"configuration \d+ is in force")
    (folder / "..data_tmp").symlink_to("..new")
    (folder / "..data_tmp").rename(folder / "..data")
    gateway.child.wait_for_line(r"configuration \d+ is in force")
    assert [model["id"] for model in models(gateway).json()["data"]] == ["local-chat", "local-tts"]
    (folder / "gate.yaml").unlink()


def test_a_file_that_is_written_in_pieces_is_never_put_in_force_by_half(gateway: Gateway) -> None:
    """Each piece alone is a valid file; the last one has other models, by which the test sees that it was read."""
    new = CONF.replace("local-embed", "local-moderation")
    file = gateway.folder / "gate.yaml"
    with file.open("w", encoding="utf-8") as writer:
        for piece in new.splitlines(keepends=True):
            writer.write(piece)
            writer.flush()
            gateway.child.process.send_signal(signal.SIGHUP)
            assert models(gateway).status_code == 200
    gateway.child.process.send_signal(signal.SIGHUP)
    gateway.child.wait_for_line(r"configuration \d+ is in force")
    assert [model["id"] for model in models(gateway).json()["data"]] == ["local-chat", "local-moderation"]


def test_a_section_that_is_written_as_empty_is_put_in_force(gateway: Gateway) -> None:
    """The way to revoke the last key of the file."""
    reload_with(gateway, before("keys") + "keys: []\n")
    while models(gateway).status_code != 401:  # a line may be that of an earlier reload
        gateway.child.wait_for_line(r"configuration \d+ is in force")


@pytest.mark.parametrize("text", ["", "# nothing\n"])
def test_an_empty_file_does_not_start(tmp_path: Path, text: str) -> None:
    file = tmp_path / "gate.yaml"
    file.write_text(text, encoding="utf-8")
    for command in ("serve", "check"):
        done = run_command(command, "--conf", str(file), folder=tmp_path)
        assert done.returncode == 1
        assert f"{file}:1: is empty; write at least one of the sections server" in done.stdout + done.stderr
