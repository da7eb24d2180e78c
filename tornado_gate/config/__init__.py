"""Load conf/gate.yaml as a frozen Config, and report all faults as ``FILE:LINE: KEY: what is wrong, what is allowed``.

The package does not depend on plugins: a plugin checks its provider entries' settings itself, with `load_settings`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from pathlib import Path
from typing import Any

from tornado_gate.config import build, checks, exposure, schema, source
from tornado_gate.config.environment import FilledValues, fill, find_data_dir
from tornado_gate.config.faults import Fault, FileFaults, KeyPath, describe, line_of
from tornado_gate.config.model import (
    FIRST_PARTY_FORMATS,
    Config,
    KeyEntry,
    LimitsConfig,
    ModelEntry,
    ModelTarget,
    ProviderConfig,
    Secret,
    ServerConfig,
)
from tornado_gate.config.network_keys import find_network_faults
from tornado_gate.config.routing import CircuitsConfig
from tornado_gate.config.settings import load_settings
from tornado_gate.config.source import FileBusy
from tornado_gate.config.stored import StoredConf
from tornado_gate.types.value import replace

__all__ = [
    "FIRST_PARTY_FORMATS",
    "CircuitsConfig",
    "Config",
    "FileBusy",
    "FileFaults",
    "KeyEntry",
    "LimitsConfig",
    "ModelEntry",
    "ModelTarget",
    "ProviderConfig",
    "Secret",
    "ServerConfig",
    "check_lost_sections",
    "default_config",
    "describe",
    "find_conf",
    "line_of",
    "load",
    "load_settings",
]

DEFAULT_PATH = Path("conf/gate.yaml")


def load(
    path: Path,
    environment: Mapping[str, str],
    server: Mapping[str, Any] | None = None,
    bound_host: str = "",
    text: str | None = None,
    *,
    at_rest: bool = False,
) -> Config:
    """Return the Config of the file at `path`. Raises FileFaults with all faults of the file.

    `server` are values that override the values of the section. `bound_host` is the address that a running gateway
    listens on, which a reload does not change. If `text` is set, it is checked instead of the content of the file. A version
    in a database is a `StoredConf`. With `at_rest`, raises FileBusy if another process has the file open for writing.
    """
    stored = path if isinstance(path, StoredConf) else None
    document = source.read(path, at_rest=at_rest) if text is None else source.parse(text.removeprefix("\ufeff"), path)
    data_dir = (server or {}).get("data_dir") or find_data_dir(document.values, environment, path.parent)
    secrets = None if stored is None else stored.secrets
    filled = fill(document.values, environment, path.parent, data_dir or ServerConfig().data_dir, secrets)
    data, faults = schema.check(filled.values)
    if stored is not None:
        faults = [*faults, *_find_own_settings(data)]
        data = {**data, "database": stored.address}
    data = {**data, "server": {**(data.get("server") or {}), **(server or {})}}
    inactive = checks.find_inactive(data)
    hosts = (data["server"].get("host") or ServerConfig().host, bound_host or "localhost")
    short_keys = list(exposure.find_short_keys(data))
    unreadable = [*document.faults, *filled.faults]
    lacking = {path for path, _ in [*unreadable, *filled.unset]}
    faults = [
        *unreadable,
        *_find_unset_variables(filled, data, inactive),
        *_drop_consequential_faults(faults, data, lacking),
        *find_network_faults(data, path.parent, inactive.reasons),
        *(short_keys if not all(map(exposure.is_loopback, hosts)) else ()),
    ]
    if faults:
        raise FileFaults(list(dict.fromkeys(faults)), path, document.lines)
    config = build.build(data, path, document.lines, inactive)
    sections = frozenset(name for name, value in document.values.items() if value is not None)
    warnings = (
        *short_keys,
        *exposure.find_server_warnings(config.server),
        *exposure.find_sign_up_warnings(config.console, config.accounts),
    )
    return replace(config, sections=sections, warnings=warnings, is_closed=document.is_closed, version=document.version)


def _find_own_settings(data: checks.Data) -> Iterable[Fault]:
    """Yield faults of keys that a configuration in a database cannot set."""
    if data.get("database"):
        yield ("database",), "is the database that has the configuration; remove the key"
    if (data.get("server") or {}).get("data_dir"):
        yield ("server", "data_dir"), "is a setting of each node; name it with --data-dir and remove the key"


SECTIONS_TO_KEEP = ("providers", "models", "keys")


def check_lost_sections(running: Config, new: Config) -> None:
    """Raise FileFaults if `new` lacks a section with entries of the running configuration, as a file does that lost its
    end.

    A section that is written as empty, such as ``keys: []``, is not lost. If the running configuration has the mark of
    the end (``...``), a file without the mark has lost its end too.
    """
    faults: list[Fault] = []
    if running.is_closed and not new.is_closed:
        message = (
            "the last line is not '...', as it is in the running configuration, so the file has probably lost its end; "
            "end it with '...', or restart the gateway to use it without"
        )
        faults.append(((), message))
    for name in SECTIONS_TO_KEEP:
        if name in running.sections and name not in new.sections and getattr(running, name):
            empty = "[]" if name == "keys" else "{}"
            message = (
                f"the section '{name}' is missing, which has {len(getattr(running, name))} entries in the running configuration; "
                f"if it shall be empty, write '{name}: {empty}'"
            )
            faults.append(((), message))
    if faults:
        raise FileFaults(faults, new.path, new.lines)


def _drop_consequential_faults(faults: list[Fault], data: checks.Data, lacking: Set[KeyPath]) -> Iterable[Fault]:
    """Return schema faults and faults between keys, except faults that only follow from a missing or unreadable value."""
    own = [fault for fault in faults if fault[0] not in lacking]
    return [*own, *checks.find_faults(data, lacking | {path for path, _ in own})]


def _find_unset_variables(filled: FilledValues, data: checks.Data, inactive: checks.InactiveKeys) -> Iterable[Fault]:
    """Yield a fault for each environment variable that is not set, unless the entry that uses it is off."""
    no_keys = {("keys", index) for index, entry in enumerate(data.get("keys") or []) if (entry or {}).get("key") == ""}
    for path, name in filled.unset:
        if not inactive.covers(path) and path[:2] not in no_keys:
            yield path, f"the {_describe_unset(name)} it, or write ${{{name}:-default}}"


def _describe_unset(name: str) -> str:
    kind, _, rest = name.partition(":")
    if kind == "file":
        return f"file {rest} does not exist; create"
    if kind == "secret":
        return f"secret {rest} does not exist; run 'tornado-gate secrets set {rest}' to add"
    return f"environment variable {name} is not set; set"


def find_conf(explicit: str | None) -> Path | None:
    """Return the file to load: `explicit`, else conf/gate.yaml below the current folder, else None.

    Raises FileFaults if `explicit` is not a file.
    """
    if explicit is None:
        return DEFAULT_PATH if DEFAULT_PATH.is_file() else None
    path = Path(explicit)
    if not path.exists():
        raise FileFaults([((), "the file does not exist; create it, or name another file")], path, {})
    if path.is_dir():
        raise FileFaults([((), "is a folder; name a file such as conf/gate.yaml with --conf")], path, {})
    return path


_EMBEDDED_MODELS: dict[str, tuple[str | None, dict[str, str]]] = {
    "local-chat": (None, {}),
    "local-embed": (None, {}),
    "local-moderation": (None, {}),
    "text-moderation-latest": ("local-moderation", {}),
    "text-moderation-stable": ("local-moderation", {}),
    "local-image-1": (None, {"image_family": "one"}),
    "local-image-2": (None, {"image_family": "two"}),
    "local-image-3": (None, {"image_family": "three"}),
    "local-image-edit": (None, {}),
    "local-tts": (None, {}),
    "local-video": (None, {}),
    "local-realtime": (None, {}),
}
_EMBEDDED_DEFAULTS = {
    "moderation": "local-moderation",
    "images": "local-image-1",
    "images_three": "local-image-3",
    "image_edits": "local-image-edit",
}


def default_config(server: Mapping[str, Any] | None = None) -> Config:
    """Return the Config used without a file: the demonstration models of the plugin `local`. `server` as in `load`."""
    section = ServerConfig(**(server or {}))
    return Config(
        path=None,
        server=section,
        warnings=tuple(exposure.find_server_warnings(section)),
        plugins={"local": True},
        providers={"local": ProviderConfig(name="local", plugin="local")},
        models={
            name: ModelEntry(name=name, targets=(ModelTarget(provider="local", model=upstream),), facts=facts)
            for name, (upstream, facts) in _EMBEDDED_MODELS.items()
        },
        defaults=_EMBEDDED_DEFAULTS,
    )
