"""The lock file of plugins: what its hash covers, and that nothing is imported which it does not allow."""

from __future__ import annotations

import json
import os
import re
import signal
import sys
from collections.abc import Callable, Iterator, Mapping
from importlib import invalidate_caches, metadata
from pathlib import Path
from typing import Any

import httpx
import pytest
from click.testing import CliRunner, Result

from tests.support.distributions import write_distribution
from tests.support.gateway import Gateway, run_command
from tornado_gate.cli import cli
from tornado_gate.config.faults import FileFaults
from tornado_gate.config.model import PluginOptions
from tornado_gate.plugins.distribution_files import hash_distribution
from tornado_gate.plugins.host import PluginHost
from tornado_gate.plugins.lock import compute_entries, find_distributions, read_lock, render, write_lock
from tornado_gate.plugins.wrappers import Scope

KEY = "test-key-of-locked-plugins"
PROVIDER = """
from tornado_gate import events, provider_impl, types

@provider_impl
def translate_request(call, request):
    return types.UpstreamRequest(url="")

@provider_impl
async def call_upstream(call):
    return types.UpstreamResponse(chunks=nothing())

async def nothing():
    return
    yield

@provider_impl
async def translate_response(call):
    text = types.Text(text="from locked")
    result = types.ChatResult(model="m", choices=(types.Choice(parts=(text,), reason="stop"),))
    for event in events.replay(result):
        yield event
"""
WRAPPER = """
from tornado_gate import provider_impl

@provider_impl(wrapper=True)
def call_upstream(call):
    return (yield)
"""
FILES = {
    "tornado_gate_locked/__init__.py": PROVIDER,
    "tornado_gate_locked/data.yaml": "a: 1\n",
    "tornado_gate_locked/below/deep.py": "",
    "tornado_gate_locked/__pycache__/__init__.cpython-311.pyc": "compiled",
    "locked_data.txt": "1",
}
POINTS = {"locked": "tornado_gate_locked"}


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder of Python's search path with the distribution of a provider, `locked`."""
    folder = tmp_path / "site"
    write_distribution(folder, "tornado-gate-locked", FILES, entry_points=POINTS)
    monkeypatch.syspath_prepend(str(folder))
    yield folder
    for name in [name for name in sys.modules if name.startswith("tornado_gate_locked")]:
        del sys.modules[name]


@pytest.fixture
def conf(tmp_path: Path) -> Path:
    """The path of a configuration file, beside which the lock file is."""
    path = tmp_path / "gate.yaml"
    path.write_text("plugins: {local: true}\n", encoding="utf-8")
    return path


def compute() -> str:
    invalidate_caches()
    return hash_distribution(metadata.distribution("tornado-gate-locked"))


def lock(conf: Path) -> Path:
    entries, faults = compute_entries(find_distributions())
    assert not faults
    write_lock(conf.with_name("plugins.lock"), entries)
    return conf.with_name("plugins.lock")


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(cli, [str(argument) for argument in arguments], prog_name="tornado-gate")


def change(path: Path) -> None:
    """Change one byte of a file, whose size stays the same."""
    content = path.read_bytes()
    path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]) if content else b"\n")


def test_the_hash_covers_all_that_can_be_imported_and_nothing_that_pip_writes(site: Path) -> None:
    package = site / "tornado_gate_locked"
    metadata_folder = site / "tornado_gate_locked-1.0.dist-info"
    (package / ".mypy_cache").mkdir()
    before = compute()
    for path in (
        package / "__pycache__" / "__init__.cpython-311.pyc",
        package / ".mypy_cache" / "cache.json",
        metadata_folder / "INSTALLER",
        metadata_folder / "REQUESTED",
        site / "another_package.py",
    ):
        path.write_text("changed", encoding="utf-8")
        assert compute() == before, f"{path.name} must not count"
    seen = {before}
    for path in (
        package / "__init__.py",
        package / "data.yaml",
        package / "below" / "deep.py",
        package / "__init__.so",  # Python prefers it to __init__.py
        package / "below" / "new.pyc",  # a module without a source
        site / "locked_data.txt",
    ):
        change(path) if path.exists() else path.write_text("new", encoding="utf-8")
        assert compute() not in seen, f"{path.name} must count"
        seen.add(compute())
    outside = site.parent / "outside"
    outside.mkdir()
    (outside / "linked.py").write_text("", encoding="utf-8")
    (package / "link").symlink_to(outside)
    (outside / "circle").symlink_to(package)
    assert compute() not in seen, "a linked folder must count"
    seen.add(compute())
    (metadata_folder / "entry_points.txt").write_text("[tornado_gate]\nlocked = this\n", encoding="utf-8")
    assert compute() not in seen, "another module must count"


def test_a_copy_and_an_editable_install_of_the_same_files_have_the_same_hash(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = {name: text for name, text in FILES.items() if "/" in name}
    hashes = []
    for number in range(2):
        source, installed = tmp_path / f"source{number}", tmp_path / f"installed{number}"
        metadata_of = installed if number else None
        write_distribution(
            source, "tornado-gate-locked", files, entry_points=POINTS, metadata_of=metadata_of, editable=bool(number)
        )
        with monkeypatch.context() as path:
            path.syspath_prepend(str(source))
            path.syspath_prepend(str(installed))
            hashes.append(compute())
    assert hashes[0] == hashes[1]


def test_what_the_lock_does_not_allow_is_not_imported(site: Path, conf: Path) -> None:
    path = lock(conf)
    allowed = path.read_text(encoding="utf-8")
    without = re.sub(r"  tornado-gate-locked:\n.*\n.*\n", "", allowed)
    other = re.sub(r'(tornado-gate-locked:\n    version: )"1.0"', r'\1"0.9"', allowed)
    shadow = {"tornado_gate_locked.py": "raise SystemExit"}
    cases: dict[str, tuple[str, Callable[[], object], str]] = {
        "not listed": (without, lambda: None, "is not in"),
        "another version": (other, lambda: None, "has version 1.0, .* allows 0.9"),
        "one byte": (allowed, lambda: change(site / "tornado_gate_locked" / "data.yaml"), "are not those that"),
        "shadowed": (
            allowed,
            lambda: write_distribution(site.parent / "earlier", "shadow", shadow),
            "are not those that",
        ),
        "gone": (
            allowed,
            lambda: (site / "tornado_gate_locked").rename(site / "renamed"),
            "no file of its module tornado_gate_locked can be found",
        ),
    }
    sys.path.insert(0, str(site.parent / "earlier"))
    try:
        for name, (text, damage, words) in cases.items():
            path.write_text(text, encoding="utf-8")
            damage()
            host = PluginHost()
            host.use_lock(conf)
            plugin = host.load("locked")
            assert re.search(words, plugin.error), f"{name}: {plugin.error}"
            assert "tornado-gate plugins lock" in plugin.error, name
            assert "tornado_gate_locked" not in sys.modules, f"{name}: it was imported"
            closed = host.configure("locked", PluginOptions(required=True), Scope())
            assert closed.closed, f"{name}: as a required wrapper it must close"
            (site.parent / "earlier" / "tornado_gate_locked.py").unlink(missing_ok=True)
            (site / "tornado_gate_locked" / "data.yaml").write_text(
                "a: 1\n", encoding="utf-8"
            ) if name != "gone" else None
    finally:
        sys.path.remove(str(site.parent / "earlier"))


def test_an_allowed_plugin_is_imported_and_a_later_lock_closes_it(site: Path, conf: Path) -> None:
    host = PluginHost()
    host.use_lock(conf)
    assert host.lock is None
    lock(conf)
    host.use_lock(conf)
    assert host.load("locked").error == ""
    change(site / "tornado_gate_locked" / "data.yaml")
    host.use_lock(conf)
    assert "are not those that" in host.load("locked").error
    assert host.plugins["locked"].error == "", "requests that have begun keep the plugin"
    lock(conf)
    host.use_lock(conf)
    assert host.load("locked").error == ""
    conf.with_name("plugins.lock").unlink()
    with pytest.raises(FileFaults, match="the file is gone"):
        host.use_lock(conf)


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("", r":1: must have a mapping 'distributions'"),
        ("distributions: [a]", r":1: must have a mapping 'distributions'"),
        ("distributions: {}\nmore: 1", r":2: more: unknown key; allowed: distributions"),
        ("distributions:\n  a: 1", r":2: distributions.a: must be a mapping with version and sha256"),
        (
            "distributions:\n  a: {version: 1.0, sha256: x}",
            r":2: distributions.a.version: must be the version in quotes",
        ),
        (
            "distributions:\n  a:\n    version: '1'\n    sha256: x",
            r":4: distributions.a.sha256: must be 64 hexadecimal",
        ),
        ("distributions:\n  a: {versoin: '1'}", r":2: distributions.a.versoin: .*did you mean 'version'"),
        ("distributions:\n  a: {}\n  a: {}", r":3: distributions.a: occurs twice"),
        ("distributions: {\n", r":\d+: is not valid YAML"),
    ],
)
def test_a_broken_lock_file_is_a_fault_with_its_line(text: str, fault: str, conf: Path) -> None:
    path = conf.with_name("plugins.lock")
    path.write_text(text, encoding="utf-8")
    with pytest.raises(FileFaults) as raised:
        read_lock(conf)
    assert re.search(f"^{re.escape(str(path))}{fault}", "\n".join(raised.value.report()), re.M), raised.value.report()
    for command in (["check"], ["plugins", "list"], ["plugins", "lock", "--check"]):
        result = run(*command, "--conf", conf)
        assert (result.exit_code, str(path) in result.output) == (1, True), f"{command}: {result.output}"


def test_what_is_written_is_read_and_other_names_of_a_distribution_are_the_same(conf: Path) -> None:
    entries, _ = compute_entries(find_distributions())
    path = conf.with_name("plugins.lock")
    path.write_text(render(entries).replace("tornado-gate-openai", "Tornado_Gate.OpenAI"), encoding="utf-8")
    found = read_lock(conf)
    assert found is not None
    assert found.entries == entries
    assert set(entries) >= {"tornado-gate-local", "tornado-gate-openai"}


@pytest.mark.qa
def test_the_command_writes_the_lock_tells_changes_and_checks(site: Path, conf: Path) -> None:
    path = conf.with_name("plugins.lock")
    missing = run("plugins", "lock", "--check", "--conf", conf)
    assert (missing.exit_code, "does not exist" in missing.output, path.exists()) == (1, True, False)
    written = run("plugins", "lock", "--conf", conf)
    assert written.exit_code == 0, written.output
    assert "+ tornado-gate-locked 1.0\n" in written.stdout
    assert run("plugins", "lock", "--check", "--conf", conf).exit_code == 0
    change(site / "tornado_gate_locked" / "data.yaml")
    before = path.read_bytes()
    differs = run("plugins", "lock", "--check", "--conf", conf)
    assert (differs.exit_code, differs.stdout) == (1, "! tornado-gate-locked 1.0: files have changed\n")
    assert path.read_bytes() == before
    listed = json.loads(run("plugins", "list", "--json", "--conf", conf).stdout)
    assert "are not those" in next(row["error"] for row in listed if row["name"] == "locked")
    path.chmod(0o600)
    assert run("plugins", "lock", "--conf", conf).stdout.startswith("! tornado-gate-locked 1.0: files have changed\n")
    assert path.stat().st_mode & 0o777 == 0o600
    (site / "tornado_gate_locked").rename(site / "elsewhere")
    gone = run("plugins", "lock", "--conf", conf)
    assert (gone.exit_code, "tornado-gate-locked cannot be locked" in gone.output) == (1, True)


SERVED = """
plugins: {{locked: true, wrap: {{on: true, required: true, models: [guarded]}}, local: true}}
providers:
  locked: {{plugin: locked}}
  local: {{plugin: local}}
models:
  mine: {{provider: locked}}
  guarded: {{provider: local, model: local-chat}}
  local-chat: {{provider: local}}
keys:
  - {{name: test, key: "{key}"}}
"""

StartGateway = Callable[..., Gateway]


def send_request(gateway: Gateway) -> Mapping[str, Any]:
    """The status of each model."""
    body = {"messages": [{"role": "user", "content": "Hello"}]}
    headers = {"Authorization": f"Bearer {KEY}"}
    return {
        model: httpx.post(
            f"{gateway.url}/v1/chat/completions",
            json={"model": model, **body},
            headers=headers,
            trust_env=False,
            timeout=30,
        ).status_code
        for model in ("mine", "guarded", "local-chat")
    }


@pytest.mark.qa
def test_a_gateway_enforces_the_lock_at_start_and_reload(tmp_path: Path, start_gateway: StartGateway) -> None:
    site = tmp_path / "site"
    write_distribution(site, "tornado-gate-locked", FILES, entry_points=POINTS)
    wrapper = {"tornado_gate_wrap.py": WRAPPER}
    write_distribution(site, "tornado-gate-wrap", wrapper, entry_points={"wrap": "tornado_gate_wrap"})
    environment = {"PYTHONPATH": os.pathsep.join([str(site), os.environ.get("PYTHONPATH", "")])}
    first = start_gateway(SERVED.format(key=KEY), environment=environment)
    conf = first.folder / "gate.yaml"
    assert send_request(first) == {"mine": 200, "guarded": 200, "local-chat": 200}

    def write() -> None:
        done = run_command("plugins", "lock", "--conf", str(conf), environment=environment)
        assert done.returncode == 0, done.stderr

    write()
    first.child.wait_for_line("configuration 2 is in force")  # the new file is noticed without a signal
    (site / "tornado_gate_wrap.py").write_text(f"{WRAPPER}# changed\n", encoding="utf-8")
    change(site / "tornado_gate_locked" / "data.yaml")
    first.child.process.send_signal(signal.SIGHUP)
    first.child.wait_for_line("configuration 3 is in force")
    assert send_request(first) == {"mine": 503, "guarded": 503, "local-chat": 200}
    first.wait_for_log("plugin 'locked' failed: files of its distribution tornado-gate-locked 1.0 are not those that")
    conf.with_name("plugins.lock").rename(conf.with_name("kept"))
    first.child.process.send_signal(signal.SIGHUP)
    first.child.wait_for_line("configuration not reloaded: .*plugins.lock:1: the file is gone")
    assert send_request(first)["mine"] == 503
    conf.with_name("kept").rename(conf.with_name("plugins.lock"))
    first.stop()

    again = Gateway.start(SERVED.format(key=KEY), first.folder, environment=environment)
    try:
        assert send_request(again) == {"mine": 503, "guarded": 503, "local-chat": 200}
        write()
        again.child.wait_for_line("configuration 2 is in force")
        assert send_request(again) == {"mine": 200, "guarded": 200, "local-chat": 200}, (
            "plugins are imported once they are allowed"
        )
    finally:
        again.stop()


FOREIGN = "import pathlib\npathlib.Path(__file__).with_name('imported').touch()\n" + PROVIDER


def write_foreign(site: Path) -> None:
    """Install a distribution that claims the names of two other plugins."""
    points = {"locked": "foreign_module", "local": "foreign_module"}
    write_distribution(site, "a-foreign-one", {"foreign_module.py": FOREIGN}, entry_points=points)


@pytest.mark.qa
def test_a_distribution_outside_of_the_lock_takes_no_plugins_name(tmp_path: Path, start_gateway: StartGateway) -> None:
    site = tmp_path / "site"
    write_distribution(site, "tornado-gate-locked", FILES, entry_points=POINTS)
    environment = {"PYTHONPATH": os.pathsep.join([str(site), os.environ.get("PYTHONPATH", "")])}
    text = SERVED.format(key=KEY).replace("wrap: {on: true, required: true, models: [guarded]}, ", "")
    folder = tmp_path / "gateway"
    folder.mkdir()
    conf = folder / "gate.yaml"
    conf.write_text(text, encoding="utf-8")
    assert run_command("plugins", "lock", "--conf", str(conf), environment=environment).returncode == 0
    write_foreign(site)
    gateway = Gateway.start(text, folder, environment=environment)
    try:
        assert send_request(gateway) == {"mine": 200, "guarded": 200, "local-chat": 200}
        for name in ("local", "locked"):
            gateway.wait_for_log(f"plugin '{name}': a-foreign-one, which {folder}/plugins.lock does not have, installs")
        ready = httpx.get(f"{gateway.url}/readyz", trust_env=False)
        assert (ready.status_code, ready.json()) == (200, {"status": "ready", "configuration": 1})
        listed = run_command("plugins", "list", "--json", "--conf", str(conf), environment=environment)
        rows = {(row["name"], row["distribution"]): row for row in json.loads(listed.stdout)}
        assert rows["local", "tornado-gate-local"]["state"] == "on"
        assert rows["local", "a-foreign-one"]["state"] == "off"
        assert "does not have" in rows["local", "a-foreign-one"]["error"]
        checked = run_command("check", "--conf", str(conf), environment=environment)
        assert checked.returncode == 0, checked.stdout
        assert "warning: plugins.local: a-foreign-one, which" in checked.stdout
        assert not (site / "imported").exists()
        logged = gateway.logs.count("a-foreign-one")
        gateway.child.process.send_signal(signal.SIGHUP)
        gateway.child.wait_for_line("configuration 2 is in force")
        assert send_request(gateway)["local-chat"] == 200
        assert gateway.logs.count("a-foreign-one") == logged
    finally:
        gateway.stop()


def test_without_a_lock_a_name_of_two_distributions_is_refused_aloud(
    tmp_path: Path, start_gateway: StartGateway
) -> None:
    site = tmp_path / "site"
    write_distribution(site, "tornado-gate-locked", FILES, entry_points=POINTS)
    write_foreign(site)
    environment = {"PYTHONPATH": os.pathsep.join([str(site), os.environ.get("PYTHONPATH", "")])}
    text = SERVED.format(key=KEY).replace("wrap: {on: true, required: true, models: [guarded]}, ", "")
    gateway = start_gateway(text, environment=environment)
    assert send_request(gateway) == {"mine": 503, "guarded": 503, "local-chat": 503}
    for name in ("local", "locked"):
        gateway.child.wait_for_output(rf"plugin '{name}' failed: .* both install a plugin of this name")
    ready = httpx.get(f"{gateway.url}/readyz", trust_env=False)
    assert (ready.status_code, ready.json()["failed_plugins"]) == (200, ["local", "locked"])


def test_a_choice_of_conf_does_not_pass_the_lock(site: Path, conf: Path) -> None:
    lock(conf)
    write_foreign(site)
    host = PluginHost()
    host.use_lock(conf)
    assert (host.load("locked").distribution, host.load("locked").error) == ("tornado-gate-locked", "")
    other = PluginHost()
    other.use_lock(conf)
    other.choose("locked", "a-foreign-one")
    assert "its distribution a-foreign-one is not in" in other.load("locked").error


def test_the_guide_shows_a_lock_file_as_it_is_written(conf: Path) -> None:
    guide = (Path(__file__).parents[2] / "docs" / "plugins" / "plugin-commands.md").read_text(encoding="utf-8")
    (example,) = [block for block in re.findall(r"```yaml\n(.*?)```", guide, re.S) if block.startswith("# The plugins")]
    conf.with_name("plugins.lock").write_text(example, encoding="utf-8")
    found = read_lock(conf)
    assert found is not None
    assert example == render(found.entries)
