"""The layout of the code: who imports whom, what the docs say, what loads at start."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from dataclasses import dataclass, field
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import get_args

import pytest

import tornado_gate
from tests.support.guides import read_guides
from tornado_gate import types
from tornado_gate.hookspecs import FormatSpec, GuardSpec, PluginSpec, ProviderSpec

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "tornado_gate"
ORDER = [
    *[
        "_version",
        "errors",
        "account_shares",
        "types",
        "codec",
        "streams",
        "config",
        "telemetry",
        "http",
        "storage",
        "database",
        "accounts",
        "ledger",
        "hookspecs",
        "plugins",
        "admission",
        "guards",
    ],
    *["targets", "pipeline", "tasks", "realtime", "tapes", "alerts", "server", "cli"],
]
"""A package imports only those before it. docs/architecture.md says what each holds."""
BESIDE = {"wire", "testing"}
"""Packages for plugins and their authors: they may import the core, which imports neither."""
ROOT_FILES = {"__init__.py", "account_shares.py", "__main__.py", "_version.py", "errors.py", "hookspecs.py", "py.typed"}
KIT_COMMANDS = {PACKAGE / "cli" / "plugin_check.py", PACKAGE / "cli" / "replay.py"}
"""The commands that run the kit for plugin authors: its conformance checks, and its replay of tapes."""
VENDOR = re.compile(r"openai|anthropic|claude|gemini|google|gpt-|kling|dashscope|alibaba", re.IGNORECASE)
SHARED_VENDOR = "tornado_gate_openai"
"""Other distributions may import the wire formats of this one: many vendors use them."""


@dataclass(frozen=True, slots=True)
class Facts:
    """The syntax of a file that the tests look at. A whole tree is too large to be kept for each file."""

    imports: list[ast.Import | ast.ImportFrom] = field(default_factory=list)
    bases: list[tuple[str, str]] = field(default_factory=list)
    """The name of a class and of a base."""
    called_names: set[str] = field(default_factory=set)
    assigned_attributes: list[ast.Attribute] = field(default_factory=list)
    vendors: list[str] = field(default_factory=list)
    """Where code names a vendor: in a string that is no docstring, or in a name."""


@cache
def read_facts(path: Path) -> Facts:
    """Parsing all files takes a second, so each is parsed once."""
    facts = Facts()
    docstrings: set[int] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        match node:
            case ast.Import() | ast.ImportFrom():
                facts.imports.append(node)
            case ast.ClassDef():
                facts.bases.extend((node.name, ast.unparse(base).rpartition(".")[2]) for base in node.bases)
            case ast.Call(func=ast.Name(id=name)):
                facts.called_names.add(name)
            case ast.Attribute(ctx=ast.Store()):
                facts.assigned_attributes.append(node)
            case ast.Expr():
                docstrings.add(id(node.value))
        name = getattr(node, "id", None) or getattr(node, "name", None) or getattr(node, "attr", None) or ""
        text = node.value if isinstance(node, ast.Constant) and id(node) not in docstrings else None
        for named in (text, name):
            if isinstance(named, str) and VENDOR.search(named):
                facts.vendors.append(f"{path}:{getattr(node, 'lineno', 0)}: {named!r}")
    return facts


def imports_of(path: Path) -> set[str]:
    """The top modules of ours that a file imports, also inside functions and for type checkers alone."""
    names: set[str] = set()
    for node in read_facts(path).imports:
        if isinstance(node, ast.ImportFrom) and node.module == "tornado_gate":
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("tornado_gate."):
            names.add(str(node.module).split(".")[1])
        elif isinstance(node, ast.Import):
            names |= {alias.name.split(".")[1] for alias in node.names if alias.name.startswith("tornado_gate.")}
    return names - {"__version__"}


def module_of(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


TEMPLATES = PACKAGE / "cli" / "templates"
"""What `tornado-gate plugins new` writes: files of other distributions, which nothing here imports."""
FILES = sorted(
    path for path in PACKAGE.rglob("*.py") if module_of(path) != "__init__" and TEMPLATES not in path.parents
)


def test_the_root_holds_packages_and_six_modules() -> None:
    entries = {path.name for path in PACKAGE.iterdir() if path.name != "__pycache__"}
    folders = {name for name in entries if (PACKAGE / name).is_dir()}
    assert entries - folders == ROOT_FILES
    assert folders == {name for name in ORDER if (PACKAGE / name).is_dir()} | BESIDE


def test_a_package_imports_only_packages_before_it() -> None:
    ordered = [path for path in FILES if module_of(path) not in BESIDE | {"__main__"}]
    assert {str(path): names for path in ordered if (names := imports_of(path) - imports_allowed_in(path))} == {}


def imports_allowed_in(path: Path) -> set[str]:
    allowed = set(ORDER[: ORDER.index(module_of(path)) + 1])
    if path in KIT_COMMANDS:
        allowed.add("testing")
    return allowed


def test_the_core_never_imports_a_plugin() -> None:
    for path in FILES:
        assert not re.search(r"(?:import|from) tornado_gate_", path.read_text(encoding="utf-8")), path


COMPANIONS = {"tornado_gate_demo_media": {"tornado_gate_local"}}
"""Distributions that extend a plugin and are no plugins themselves, with the package that they may import."""


def list_plugin_imports(path: Path) -> list[str]:
    """The modules of plugins that a file imports, also inside functions."""
    return re.findall(r"^\s*(?:import|from) (tornado_gate_[\w.]+)", path.read_text(encoding="utf-8"), re.M)


def test_plugins_import_the_core_themselves_and_the_shared_vendor() -> None:
    for path in ROOT.glob("plugins/*/tornado_gate_*/**/*.py"):
        own = path.relative_to(ROOT / "plugins").parts[1]
        for module in list_plugin_imports(path):
            top, _, part = module.partition(".")
            shared = top == SHARED_VENDOR and part.split(".")[0] in {"wire", "voice", "compatible"}
            assert top in {own, *COMPANIONS.get(own, ())} or shared, f"{path} imports {module}"


@pytest.mark.parametrize("vendor", ["openai", "anthropic", "gemini"])
def test_the_format_and_the_provider_of_a_vendor_never_import_each_other(vendor: str) -> None:
    package = ROOT / "plugins" / vendor / f"tornado_gate_{vendor}"
    forbidden = {
        "wire": ("fields", "format", "provider"),
        "fields": ("format", "provider"),
        "format": ("provider",),
        "provider": ("format", "fields"),
    }
    for part, others in forbidden.items():
        for path in (package / part).rglob("*.py"):
            parts = {
                module.split(".")[1] for module in list_plugin_imports(path) if module.startswith(f"{package.name}.")
            }
            assert not parts & set(others), f"{path} imports {parts & set(others)}"


def test_plugins_make_no_classes_of_requests() -> None:
    """What a format must know of a request when it answers it is the request's `reply_state`."""
    requests = {kind.__name__ for kind in get_args(types.Request)} | {"CommonRequest", "MediaRequest"}
    for path in ROOT.glob("plugins/*/tornado_gate_*/**/*.py"):
        for name, base in read_facts(path).bases:
            assert base not in requests, f"{path}: {name}"


def test_only_formats_look_at_the_reply_state_of_a_request() -> None:
    for path in ROOT.glob("plugins/*/tornado_gate_*/**/*.py"):
        if not {"format", "fields", "wire"} & set(path.parts):
            assert "reply_state" not in path.read_text(encoding="utf-8"), path


def import_graph(package: Path) -> dict[str, set[str]]:
    """For each module of a package, by its full name, those of the package that it imports, also for type checkers alone."""
    files = {name_of(path, package.parent): path for path in package.rglob("*.py")}
    graph: dict[str, set[str]] = {}
    for name, path in files.items():
        found: set[str] = set()
        for node in read_facts(path).imports:
            if isinstance(node, ast.Import):
                found |= {alias.name for alias in node.names}
            else:
                whole = {f"{node.module}.{alias.name}" for alias in node.names}
                found |= {one if one in files else str(node.module) for one in whole}
        graph[name] = (found & files.keys()) - {name}
    return graph


def name_of(path: Path, root: Path) -> str:
    return ".".join(path.relative_to(root).with_suffix("").parts).removesuffix(".__init__")


@pytest.mark.parametrize(
    "package",
    [PACKAGE, *sorted(path.parent for path in ROOT.glob("plugins/*/*/__init__.py"))],
    ids=lambda package: package.name,
)
def test_no_modules_of_a_package_import_each_other_in_a_circle(package: Path) -> None:
    try:
        TopologicalSorter(import_graph(package)).prepare()
    except CycleError as error:
        pytest.fail(f"import cycle: {' -> '.join(reversed(error.args[1]))}")


def test_a_call_is_made_in_one_module() -> None:
    makers = {str(path.relative_to(PACKAGE)) for path in FILES if "Call" in read_facts(path).called_names}
    assert makers == {"pipeline/calls.py", "testing/calls.py"}


COUNTS_INLINE = "streams/passthrough.py"
"""Counts the frames of a stream without a call for each chunk."""


def test_measurements_change_by_their_methods_only() -> None:
    parts = (types.Meter, types.Progress, types.Charge, types.ResponseAdditions)
    fields = {name for part in parts for name in part.__struct_fields__}
    owners = {"meter", "_meter", "measured", "progress", "charge", "additions"}
    plugins = ROOT.glob("plugins/*/tornado_gate_*/**/*.py")
    for path in [*FILES, *plugins]:
        if path == PACKAGE / COUNTS_INLINE:
            continue
        for node in read_facts(path).assigned_attributes:
            if node.attr in fields:
                owner = getattr(node.value, "attr", None) or getattr(node.value, "id", None)
                assert owner not in owners, f"{path}:{node.lineno} assigns {owner}.{node.attr}"


def test_every_public_name_is_there() -> None:
    assert all(hasattr(tornado_gate, name) for name in tornado_gate.__all__)
    assert all(hasattr(tornado_gate.types, name) for name in tornado_gate.types.__all__)


@pytest.mark.parametrize("spec", [FormatSpec, ProviderSpec, GuardSpec, PluginSpec])
def test_every_hook_is_explained_and_stands_in_the_guide(spec: type) -> None:
    guide = read_guides()
    hooks = {name: hook for name, hook in vars(spec).items() if not name.startswith("_")}
    assert hooks
    for name, hook in hooks.items():
        assert len(hook.__doc__ or "") > 80, f"{name} needs a docstring that a stranger can write a plugin from"
        assert f"`{name}`" in guide, f"the docs for plugin authors do not mention {name}"


def read_layout(indent: int) -> list[str]:
    """The packages and modules at one depth of the tree in docs/architecture.md, from top to bottom."""
    page = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
    tree = page.partition("```\ntornado_gate/\n")[2].partition("\nplugins/")[0]
    return re.findall(rf"^ {{{indent}}}(\w+)(?:/|\.py) ", tree, re.M)


def test_the_layout_in_the_docs_has_one_line_for_each_package_in_the_order_of_imports() -> None:
    order = [name for name in ORDER if name != "_version"]
    assert [name for name in read_layout(2) if name not in BESIDE] == order
    assert set(read_layout(2)) == set(order) | BESIDE


def test_the_layout_in_the_docs_has_one_line_for_each_package_of_the_server() -> None:
    packages = [path.parent.name for path in (PACKAGE / "server").glob("*/__init__.py")]
    assert sorted(read_layout(4)) == sorted(packages)


@pytest.mark.parametrize("heavy", ["aiohttp", "prometheus_client", "sqlite3", "click", "yaml"])
def test_importing_the_package_loads_nothing_heavy(heavy: str) -> None:
    code = f"import sys, tornado_gate; sys.exit({heavy!r} in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


NAMES_VENDORS = {"config", "cli"}
"""Where users read examples, and where the formats that are on by default are named."""


def test_the_core_names_no_vendor() -> None:
    paths = [path for path in FILES if module_of(path) not in BESIDE | NAMES_VENDORS]
    assert [named for path in paths for named in read_facts(path).vendors] == []
