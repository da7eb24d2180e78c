"""/admin/v1/models, /providers, /plugins and /tasks: the state of the gateway. The views are shared with the console."""

from __future__ import annotations

from typing import get_args

from tornado_gate.accounts import audit
from tornado_gate.errors import NotFound
from tornado_gate.server.admin import views
from tornado_gate.server.admin.parameters import AFTER, LIMIT, choice_parameter, text_parameter
from tornado_gate.server.admin.routing import AdminRequest, AdminRoute, Deleted, Page
from tornado_gate.server.admin.scope import ADMINISTRATION, EVERY
from tornado_gate.server.admin.views import ModelView, PluginView, ProviderView, TaskView
from tornado_gate.types import TaskStatus

_MODELS, _TASKS = "admin: models and providers", "admin: tasks"


async def list_models(request: AdminRequest) -> Page[ModelView]:
    models = tuple(view for view in await views.describe_models(request.services) if request.scope.has_model(view.name))
    return Page(data=models, total=len(models))


async def list_providers(request: AdminRequest) -> Page[ProviderView]:
    providers = tuple(views.describe_providers(request.services))
    return Page(data=providers, total=len(providers))


async def get_provider(request: AdminRequest) -> ProviderView:
    for view in views.describe_providers(request.services):
        if view.name == request.id:
            return view
    raise NotFound("There is no such provider entry in conf.", code="unknown_provider")


async def list_plugins(request: AdminRequest) -> Page[PluginView]:
    plugins = tuple(await views.describe_plugins(request.services))
    return Page(data=plugins, total=len(plugins))


async def list_tasks(request: AdminRequest) -> Page[TaskView]:
    query = request.query
    filters = {name: query[name] for name in ("status", "account", "model", "after")}
    page = await views.list_tasks(request.services, limit=query["limit"], **filters)
    return Page(data=page.tasks, next=page.next or None)


async def get_task(request: AdminRequest) -> TaskView:
    return views.describe_task(await request.services.tasks.engine.get(request.id))


async def cancel_task(request: AdminRequest) -> TaskView:
    """Cancel a task, and cancel it at its upstream if possible. A task that has ended stays unchanged."""
    engine = request.services.tasks.engine
    record = await engine.get(request.id)
    if record.status not in ("completed", "failed"):
        await _record_change(request, "task.cancel", record.account)
        await engine.cancel(record)
    return views.describe_task(await engine.get(request.id))


async def delete_task(request: AdminRequest) -> Deleted:
    tasks = request.services.tasks
    record = await tasks.engine.get(request.id)
    await _record_change(request, "task.delete", record.account)
    await tasks.delete(record)
    return Deleted(id=request.id)


async def _record_change(request: AdminRequest, action: str, account: str) -> None:
    """Write the next change of the task to the audit log, because the store of tasks has its own transactions."""

    def write() -> None:
        with request.services.database.write() as connection:
            audit.record(connection, request.actor, action, request.id, account=account)

    await request.run(write)


_FILTERS = (
    choice_parameter("status", "Only tasks with this status.", *get_args(TaskStatus)),
    text_parameter("account", "Only tasks of this account."),
    text_parameter("model", "Only tasks of this model."),
)

ROUTES = [
    AdminRoute(
        method="GET", path="/models", limited=EVERY, function=list_models, tag=_MODELS, answer=Page[ModelView],
        summary="List the models with their targets and their health",
        description="Circuits are those of the process that answers.",
    ),
    AdminRoute(
        method="GET", path="/providers", limited=ADMINISTRATION, function=list_providers, tag=_MODELS, answer=Page[ProviderView],
        summary="List the provider entries", description="Without keys, headers, and paths of addresses.",
    ),
    AdminRoute(
        method="GET", path="/providers/{id}", limited=ADMINISTRATION, function=get_provider, tag=_MODELS, answer=ProviderView,
        summary="Show a provider entry",
    ),
    AdminRoute(
        method="GET", path="/plugins", limited=ADMINISTRATION, function=list_plugins, tag=_MODELS, answer=Page[PluginView],
        summary="List the plugins with their state and their last failure",
    ),
    AdminRoute(
        method="GET", path="/tasks", limited=ADMINISTRATION, function=list_tasks, tag=_TASKS, answer=Page[TaskView],
        summary="List the video tasks of all accounts",
        description="Newest first, without prompts. A page of a filtered list may be short and yet have a next one.",
        parameters=(*_FILTERS, LIMIT, AFTER),
    ),
    AdminRoute(
        method="GET", path="/tasks/{id}", function=get_task, tag=_TASKS, answer=TaskView, summary="Show a video task",
        limited=ADMINISTRATION,
    ),
    AdminRoute(
        method="POST", path="/tasks/{id}/cancel", limited=ADMINISTRATION, function=cancel_task, tag=_TASKS, answer=TaskView,
        summary="Cancel a video task",
    ),
    AdminRoute(
        method="DELETE", path="/tasks/{id}", limited=ADMINISTRATION, function=delete_task, tag=_TASKS, answer=Deleted,
        summary="Cancel a video task and delete it with its videos",
    ),
]  # fmt: skip
