"""Routes of /admin/v1 that change the configuration file: provider entries and models; and the state of the file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote

from tornado_gate.config.entry_edits import EntryAddition, EntryChange, EntryRemoval, PluginChange, Section, Step
from tornado_gate.errors import GateError, NotFound
from tornado_gate.pipeline.connection_tests import check_connection
from tornado_gate.server.admin.configuration_bodies import (
    ConnectionTestSchema,
    ModelChangeSchema,
    NewModelSchema,
    NewProviderSchema,
    PluginChangeSchema,
    ProviderChangeSchema,
)
from tornado_gate.server.admin.parameters import text_parameter
from tornado_gate.server.admin.routing import AdminRequest, AdminRoute, Deleted
from tornado_gate.server.configuration_changes import (
    AppliedChange,
    change_configuration,
    forget_keys,
    store_secrets,
)
from tornado_gate.server.plugin_settings import store_setting_secrets
from tornado_gate.server.process.conf_change import find_obstacle
from tornado_gate.types.value import Value

_TAG = "admin: models and providers"


class ConfigurationView(Value, frozen=True, kw_only=True):
    """The configuration that the answering process uses. Times are Unix seconds.

    `version` is the digest of the file's text, "" without a file; `number` counts the configurations of this process.
    `applied_at` is the time since which it is used. `is_writable`: changes by /admin/v1 and the console are possible, else
    `obstacle` has the reason. `rejected` are the faults of a newer file that was refused, `rejected_at` the time since then.
    """

    version: str
    number: int
    file: str
    applied_at: float
    is_writable: bool
    obstacle: str = ""
    rejected: tuple[str, ...] = ()
    rejected_at: float | None = None


class ChangedEntry(Value, frozen=True, kw_only=True):
    """A changed entry of the file. `version` is the file's new version; `applied`: the answering process uses it already.

    All other processes use it within seconds. `diff` is the change of the file, without secrets.
    """

    name: str
    version: str
    applied: bool
    diff: str
    notes: tuple[str, ...] = ()


class ConnectionView(Value, frozen=True, kw_only=True):
    """The result of a connection test. `message` is the vendor's answer in words; `models` are the models that it lists."""

    ok: bool
    message: str
    models: tuple[str, ...] = ()


async def get_configuration(request: AdminRequest) -> ConfigurationView:
    snapshot, state = request.services.gate.snapshot, request.services.configuration
    path, rejected = snapshot.config.path, state.rejected
    obstacle = find_obstacle(path)
    return ConfigurationView(
        version=snapshot.config.version,
        number=snapshot.number,
        file=str(path) if path else "",
        applied_at=state.applied_at,
        is_writable=not obstacle,
        obstacle=obstacle,
        rejected=rejected.faults if rejected else (),
        rejected_at=rejected.since if rejected else None,
    )


async def create_provider(request: AdminRequest) -> ChangedEntry:
    name, entry, version = _split_body(request.body)
    entry = {"plugin": entry.pop("plugin"), **entry}
    return await _write_with_key(request, "provider.create", name, entry, version, _add_provider)


async def change_provider(request: AdminRequest) -> ChangedEntry:
    _, members, version = _split_body(request.body)
    return await _write_with_key(request, "provider.change", request.id, members, version, _change_provider)


def _add_provider(name: str, entry: Mapping[str, Any], references: list[str]) -> Step:
    return EntryAddition(section="providers", name=name, entry=entry, new_secrets=frozenset(references))


def _change_provider(name: str, members: Mapping[str, Any], references: list[str]) -> Step:
    return EntryChange(section="providers", name=name, members=members, new_secrets=frozenset(references))


async def _write_with_key(
    request: AdminRequest, action: str, name: str, members: dict[str, Any], version: str | None, make_step: Any
) -> ChangedEntry:
    """Make a change of a provider entry. Its secrets go to the store first, and are deleted if the change is refused."""
    config = request.services.gate.snapshot.config
    members, references = await request.run(store_secrets, config, name, members)
    try:
        return await _write(request, action, name, [make_step(name, members, references)], version)
    except GateError:
        await request.run(forget_keys, config, references)
        raise


async def remove_provider(request: AdminRequest) -> Deleted:
    return await _remove(request, "provider.delete", "providers", request.id)


async def check_provider(request: AdminRequest) -> ConnectionView:
    snapshot = request.services.gate.snapshot
    if request.id not in snapshot.targets.providers:
        raise NotFound("There is no such provider entry that is on.", code="unknown_provider")
    result = await check_connection(snapshot, request.id, request.body.get("model", ""))
    names = tuple(model.name for model in result.models)
    return ConnectionView(ok=result.ok, message=result.message, models=names)


async def change_plugin(request: AdminRequest) -> ChangedEntry:
    _, members, version = _split_body(request.body)
    on = members.pop("on", None)
    gate = request.services.gate
    config = gate.snapshot.config
    if request.id not in gate.host.plugins and request.id not in config.plugins:
        raise NotFound("No plugin of this name is installed. GET /admin/v1/plugins lists them.", code="unknown_plugin")
    members, references = await request.run(store_setting_secrets, config, request.id, members)
    try:
        step = PluginChange(plugin=request.id, members=members, on=on, new_secrets=frozenset(references))
        return await _write(request, "plugin.change", request.id, [step], version)
    except GateError:
        await request.run(forget_keys, config, references)
        raise


async def create_model(request: AdminRequest) -> ChangedEntry:
    name, entry, version = _split_body(request.body)
    step = EntryAddition(section="models", name=name, entry=entry, new_secrets=frozenset())
    return await _write(request, "model.create", name, [step], version)


async def change_model(request: AdminRequest) -> ChangedEntry:
    _, members, version = _split_body(request.body)
    name = _get_model_name(request)
    step = EntryChange(section="models", name=name, members=members, new_secrets=frozenset())
    return await _write(request, "model.change", name, [step], version)


async def remove_model(request: AdminRequest) -> Deleted:
    return await _remove(request, "model.delete", "models", _get_model_name(request))


async def _remove(request: AdminRequest, action: str, section: Section, name: str) -> Deleted:
    step = EntryRemoval(section=section, name=name)
    await _write(request, action, name, [step], request.query["version"] or None)
    return Deleted(id=name)


async def _write(request: AdminRequest, action: str, name: str, steps: list[Step], version: str | None) -> ChangedEntry:
    done: AppliedChange = await change_configuration(
        request.services, request.actor, action, name, steps, version=version
    )
    return ChangedEntry(
        name=name, version=done.version, applied=done.applied, diff=done.diff, notes=(*done.rejected, *done.notes)
    )


def _split_body(body: Mapping[str, Any]) -> tuple[str, dict[str, Any], str | None]:
    """Return the name, the members of the entry, and the version of the file that the change is for."""
    members = {member: value for member, value in body.items() if member not in ("name", "version")}
    return body.get("name", ""), members, body.get("version")


def _get_model_name(request: AdminRequest) -> str:
    """Return the model in the path, which is percent-encoded there."""
    return unquote(request.arguments["name"])


_VERSION = text_parameter("version", "The version of the file for which the change is meant; another one is a 409.")
_SAVED = (
    "The change is checked, written to the configuration file, and used without a restart. Comments and order stay."
)

ROUTES = [
    AdminRoute(
        method="GET", path="/configuration", function=get_configuration, tag=_TAG, answer=ConfigurationView,
        summary="Show the version of the configuration, and the faults of a newer file that was refused",
        description="Of the process that answers.",
    ),
    AdminRoute(
        method="POST", path="/providers", function=create_provider, tag=_TAG, answer=ChangedEntry, body=NewProviderSchema,
        summary="Add a provider entry", example={"name": "vendor", "plugin": "none-0", "api_key": "the-key-of-the-account"},
        description=f"{_SAVED} The plugin is switched on. The key goes to the encrypted store.",
    ),
    AdminRoute(
        method="PATCH", path="/providers/{id}", function=change_provider, tag=_TAG, answer=ChangedEntry,
        body=ProviderChangeSchema, example={"api_key": "the-new-key-of-the-account"},
        summary="Change a provider entry, such as its key",
        description=f"{_SAVED} The value null removes a member.",
    ),
    AdminRoute(
        method="DELETE", path="/providers/{id}", function=remove_provider, tag=_TAG, answer=Deleted, parameters=(_VERSION,),
        summary="Remove a provider entry", description="409 with the models that use it.",
    ),
    AdminRoute(
        method="POST", path="/providers/{id}/test", function=check_provider, tag=_TAG, answer=ConnectionView,
        body=ConnectionTestSchema, example={}, summary="Test the connection to a vendor",
        description="Asks for the vendor's list of models; if the plugin cannot do this, sends a short chat.",
    ),
    AdminRoute(
        method="PATCH", path="/plugins/{id}", function=change_plugin, tag=_TAG, answer=ChangedEntry,
        body=PluginChangeSchema, example={"on": True}, summary="Switch a plugin on or off, or change its settings",
        description=f"{_SAVED} The value null removes a member. Secrets go to the encrypted store.",
    ),
    AdminRoute(
        method="POST", path="/models", function=create_model, tag=_TAG, answer=ChangedEntry, body=NewModelSchema,
        summary="Add a model", example={"name": "none-0", "provider": "none-0"}, description=_SAVED,
    ),
    AdminRoute(
        method="PATCH", path="/models/{name}", function=change_model, tag=_TAG, answer=ChangedEntry, body=ModelChangeSchema,
        summary="Change a model", example={"model": "another-upstream-model"},
        description=f"{_SAVED} The value null removes a member. A name with other characters is percent-encoded.",
    ),
    AdminRoute(
        method="DELETE", path="/models/{name}", function=remove_model, tag=_TAG, answer=Deleted, parameters=(_VERSION,),
        summary="Remove a model", description="409 with the models and defaults that need it.",
    ),
]  # fmt: skip
