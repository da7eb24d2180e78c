"""tornado-gate explain"""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import click

from tornado_gate.cli.common import (
    conf_option,
    data_dir_option,
    exit_with_faults,
    exit_with_message,
    load,
    verbose_option,
)
from tornado_gate.codec.secret_words import mask_address
from tornado_gate.errors import ConfigError, GateError
from tornado_gate.types.value import replace

if TYPE_CHECKING:
    from tornado_gate.accounts.keys import KeyStore
    from tornado_gate.config.model import Config
    from tornado_gate.pipeline.gate import Gate
    from tornado_gate.types import Call


@click.command(short_help="Show which targets a request for a model gets, and why.")
@click.argument("model")
@conf_option
@data_dir_option
@verbose_option
@click.option("--key", metavar="K", help="The name or ID of an API key: apply its permissions and limits.")
@click.option("--operation", default=None, metavar="O", help="Such as embeddings. Default: chat, if the model has it.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text.")
def explain(
    model: str,
    conf_file: Path | None,
    data_dir: Path | None,
    key: str | None,
    operation: str | None,
    as_json: bool,
) -> None:
    """Show the way of a request for MODEL: its entry, its targets in order, its fallbacks, wrappers and limits.

    \b
      tornado-gate explain gpt-4o
      tornado-gate explain gpt-4o --key nightly      with the permissions of a key

    Nothing is sent, and no server is needed. Circuits and used amounts are therefore unknown: POST /v1/_explain of a running
    gateway includes them, and shows the upstream request. If the request would be refused, the exit code is 1, and the error
    is printed with its code.
    """
    _, config = load(conf_file, data_dir)
    with TemporaryDirectory(prefix="tornado-gate-") as folder:
        try:
            explanation = _explain(config, Path(folder), model, key, operation)
        except ConfigError as error:
            exit_with_faults(error, config.path)
        except GateError as error:
            exit_with_message(f"{error.status} {error.code or error.type}: {error.message}")
    click.echo(json.dumps(explanation, indent=2) if as_json else _format(explanation))


def _explain(config: Config, folder: Path, model: str, key: str | None, operation: str | None) -> dict[str, Any]:
    """Explain with a gate whose files are in `folder`: the running gateway's files stay unchanged."""
    from tornado_gate.accounts.keys import KeyStore, digest_key
    from tornado_gate.pipeline.gate import Gate
    from tornado_gate.plugins.host import PluginHost
    from tornado_gate.server.process.process import check_plugins
    from tornado_gate.telemetry.metrics import Metrics

    host = PluginHost()
    check_plugins(config, host)
    store, digest = None, b""
    if key is not None:
        entry = next((entry for entry in config.keys if entry.key and key in (entry.name, entry.key)), None)
        store, digest = (None, digest_key(entry.key)) if entry is not None else _find_stored_key(config, key)
    store = store or KeyStore.open(folder)
    own = replace(config, server=replace(config.server, data_dir=folder), limits=replace(config.limits, store=""))
    try:
        return asyncio.run(_ask(Gate(own, host, store, Metrics()), config, model, digest, operation))
    finally:
        store.close()


def _find_stored_key(config: Config, key: str) -> tuple[KeyStore, bytes]:
    """Return the store and the digest of a key in the database. Exits with a message if there is none."""
    from tornado_gate.accounts.errors import AccountError
    from tornado_gate.accounts.keys import KeyStore
    from tornado_gate.database.engine import DatabaseError
    from tornado_gate.database.opening import open_existing_database

    try:
        database = open_existing_database(config.server.data_dir, config.database)
        if database is None:
            exit_with_message(
                f"no key '{key}' in the configuration, and there is no database in {config.server.data_dir}"
            )
        store = KeyStore(database)
        return store, store.find_named(key).digest
    except AccountError as error:
        exit_with_message(error.message)
    except DatabaseError as error:
        exit_with_message(str(error))


async def _ask(gate: Gate, config: Config, model: str, digest: bytes, operation: str | None) -> dict[str, Any]:
    """Return the explanation of a request for a model. Raises the GateError that its caller gets."""
    from tornado_gate.pipeline.calls import make_question
    from tornado_gate.pipeline.explain import explain_choice
    from tornado_gate.types import Caller

    try:
        caller = await gate.callers.describe(digest) if digest else Caller(id="", account="")
        call = make_question("explain", operation or _choose_operation(gate, model), "", model, caller)
        choice = await explain_choice(gate, gate.snapshot, call)
    finally:
        await gate.close()
    call = replace(call, model=choice["model"])
    bounds = choice["limits"].get("bounds", [])
    return {
        **{name: choice[name] for name in ("model", "operation", "entry", "strategy", "why")},
        "key": caller.name,
        "targets": _order_targets(
            [_describe_target(gate, config, target, choice["entry"]) for target in choice["targets"]],
            choice["strategy"],
        ),
        "wrappers": _list_wrappers(gate, config, call),
        "limits": [{name: bound[name] for name in ("subject", "name", "bound", "limit")} for bound in bounds],
    }


def _choose_operation(gate: Gate, model: str) -> str:
    """Return the operation to explain: chat if a target of the model has it, else the first in the order of the alphabet."""
    targets = gate.snapshot.targets.list_targets(model)
    operations = sorted({operation for target, _ in targets for operation in target.operations or ()})
    return "chat" if "chat" in operations or not operations else operations[0]


def _list_wrappers(gate: Gate, config: Config, call: Call) -> list[str]:
    """Return the wrappers and guards whose scope in conf has the request."""
    from tornado_gate.config.model import PluginOptions
    from tornado_gate.pipeline.plugin_setup import ModelNames
    from tornado_gate.plugins.wrappers import Scope

    names = ModelNames(config.models)
    wrappers = [name for name, on in config.plugins.items() if on and gate.host.plugins[name].wrapper]
    scopes = {name: Scope(config.plugin_options.get(name, PluginOptions()), names.list) for name in wrappers}
    return [name for name, scope in scopes.items() if scope.covers(call)]


def _order_targets(targets: list[dict[str, Any]], strategy: str) -> list[dict[str, Any]]:
    """Return the targets. In a random order the largest weight comes first. Fallbacks remain last."""
    if strategy != "weighted":
        return targets
    return sorted(
        targets, key=lambda target: (target["is_fallback"], 0 if target["is_fallback"] else -target["weight"])
    )


def _describe_target(gate: Gate, config: Config, target: dict[str, Any], entry: str) -> dict[str, Any]:
    """Return the facts about one target, without the state of its circuit."""
    provider = gate.snapshot.targets.providers[target["provider"]]
    address = provider.capabilities.base_url or provider.entry.base_url
    model = config.models.get(target["entry"])
    weights = [
        written.weight
        for written in (model.targets if model is not None else ())
        if written.provider == target["provider"] and written.model in (None, target["model"])
    ]
    return {
        **{name: target[name] for name in ("provider", "model", "entry")},
        "plugin": provider.entry.plugin,
        "base_url": mask_address(address or ""),
        "weight": weights[0] if weights else 1,
        "is_fallback": target["entry"] != entry,
    }


def _format(explanation: dict[str, Any]) -> str:
    lines = [f"{explanation['model']}: {explanation['operation']}", f"  entry: models.{explanation['entry']}"]
    lines.append(f"  key: {explanation['key'] or 'any key without a list of models'}")
    lines.append(f"  order: {explanation['why']}")
    for number, target in enumerate(explanation["targets"], 1):
        address = f" at {target['base_url']}" if target["base_url"] else ""
        role = f"fallback model {target['entry']}" if target["is_fallback"] else f"weight {target['weight']}"
        lines.append(
            f"  {number}. {target['provider']}: {target['model']} ({role}; plugin {target['plugin']}{address})"
        )
    if explanation["wrappers"]:
        lines.append(f"  wrappers and guards: {', '.join(explanation['wrappers'])}")
    for bound in explanation["limits"]:
        lines.append(f"  limit of the {bound['subject']} {bound['name']}: {bound['limit']} ({bound['bound']})")
    return "\n".join(lines)
