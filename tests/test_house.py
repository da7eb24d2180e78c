"""The house keeps its shape: who imports whom, what the docs say, what loads at start."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

import tornado_gate
from tornado_gate.hookspecs import FormatSpec, ProviderSpec

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "tornado_gate"
LAYERS = [
    {"_version", "errors", "ids", "heap"},
    {"types", "http1", "wheel", "flow"},
    {"order"},
    {"sse", "stream", "forwarding", "jsonbody", "patch", "fields", "mediatypes"},
    {"checks", "fetch", "inline", "pictures", "vectors", "batches", "forms", "bodies"},
    {"wire", "hookspecs"},
    {"voice"},
    {"scrubbing", "tally"},
    {"accesslog"},
    {"config", "logs", "metrics", "deadlines", "auth", "failures", "limits", "watchdog", "sqlitefile"},
    {"keystore", "memory", "media", "health", "routing", "upstream"},
    {"sockets", "sessions"},
    {"plugins", "continuity", "tasks"},
    {"snapshot"},
    {"asking"},
    {"gate"},
    {"videos", "inner"},
    {"realtime"},
    {"pipeline"},
    {"explain"},
    {"handlers"},
    {"app", "testing"},
    {"serve"},
    {"cli"},
    {"__main__"},
]
"""Left to right as docs/architecture.md draws them. `__init__` re-exports names for plugins and belongs to no layer."""


def imports_of(path: Path) -> set[str]:
    """The top modules of ours that a file imports, also inside functions, but not for type checkers alone."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            node.body = []
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module == "tornado_gate":
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("tornado_gate."):
            names.add(str(node.module).split(".")[1])
        elif isinstance(node, ast.Import):
            names |= {alias.name.split(".")[1] for alias in node.names if alias.name.startswith("tornado_gate.")}
    return names


def module_of(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


FILES = sorted(path for path in PACKAGE.rglob("*.py") if module_of(path) not in {"__init__", "_pytest_compat"})


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_no_module_imports_one_to_its_right(path: Path) -> None:
    place = {name: number for number, layer in enumerate(LAYERS) for name in layer}
    module = module_of(path)
    assert module in place, f"{module} has no place in the layers"
    allowed = {name for name, number in place.items() if number < place[module]} | {module, "__version__"}
    public = set(tornado_gate.__all__)
    assert imports_of(path) - allowed - public == set()


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_the_core_never_imports_a_plugin(path: Path) -> None:
    assert not re.search(r"(?:import|from) tornado_gate_", path.read_text(encoding="utf-8"))


def test_plugins_import_the_core_and_never_each_other() -> None:
    for path in ROOT.glob("plugins/*/tornado_gate_*/**/*.py"):
        own = path.relative_to(ROOT / "plugins").parts[1]
        for other in re.findall(r"^\s*(?:import|from) (tornado_gate_\w+)", path.read_text(encoding="utf-8"), re.M):
            assert other == own, path


def test_every_public_name_is_there() -> None:
    assert all(hasattr(tornado_gate, name) for name in tornado_gate.__all__)
    assert all(hasattr(tornado_gate.types, name) for name in tornado_gate.types.__all__)


@pytest.mark.parametrize("spec", [FormatSpec, ProviderSpec])
def test_every_hook_is_explained_and_stands_in_the_guide(spec: type) -> None:
    guide = (ROOT / "docs/plugins.md").read_text(encoding="utf-8")
    hooks = {name: hook for name, hook in vars(spec).items() if not name.startswith("_")}
    assert hooks
    for name, hook in hooks.items():
        assert len(hook.__doc__ or "") > 80, f"{name} needs a docstring that a stranger can write a plugin from"
        assert f"`{name}`" in guide, f"docs/plugins.md does not mention {name}"


def test_every_module_of_the_core_stands_in_the_layout() -> None:
    layout = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
    for path in PACKAGE.iterdir():
        if path.suffix == ".py" and path.name not in {"_version.py", "_pytest_compat.py"}:
            assert f"  {path.name} " in layout, f"docs/architecture.md does not show {path.name}"


def test_links_in_the_docs_lead_somewhere() -> None:
    for page in [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("plugins/*/README.md")]:
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


@pytest.mark.parametrize("heavy", ["aiohttp", "prometheus_client", "sqlite3", "click", "yaml"])
def test_importing_the_package_loads_nothing_heavy(heavy: str) -> None:
    code = f"import sys, tornado_gate; sys.exit({heavy!r} in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
