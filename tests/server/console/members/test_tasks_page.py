"""The page of video tasks."""

from __future__ import annotations

import pytest

from tests.server.console.members.site import Visit
from tests.tasks.test_store_contract import a_task
from tornado_gate.server.console.task_pages import PAGE_TASKS
from tornado_gate.server.services import Services
from tornado_gate.tasks.record import TaskRecord, advance
from tornado_gate.types import VideoFile

pytestmark = pytest.mark.gen_test(timeout=60)


async def store(services: Services, record: TaskRecord, **changes: object) -> str:
    """A stored task that no engine runs: it is saved as ended, or its lease is kept."""
    tasks = services.tasks.engine.store
    made = await tasks.create(record, None)
    lease = await tasks.acquire_lease(made.id)
    assert lease is not None
    if changes:
        changed = advance(made, **changes)
        await (tasks.finish if changed.has_ended else tasks.save)(changed, lease)
    return made.id


async def test_tasks_are_listed_for_their_owner_and_for_administrators(visit: Visit, services: Services) -> None:
    ada, bob = visit(), visit("192.0.2.2")
    await ada.sign_up("ada@example.org")
    await bob.sign_up("bob@example.org")
    assert "No video yet" in (await bob.get("/console/tasks")).text
    ids = {user.email.partition("@")[0]: user.id for user in services.accounts.users.list_page()[0]}
    files = (VideoFile(id="a" * 32 + ".mp4", media_type="video/mp4", size=2_500_000),)
    await store(services, a_task(account=ids["bob"], model="done"), step="done", status="completed", progress=100, files=files,
                started_at=1000.0, completed_at=1075.0, expires_at=4e9)  # fmt: skip
    await store(services, a_task(account=ids["bob"], model="<b>bad</b>"), step="done", status="failed", completed_at=2.0,
                expires_at=4e9, error_message="The provider refused the prompt.", error_code="refused")  # fmt: skip
    running = await store(
        services, a_task(account=ids["bob"], model="slow"), step="running", status="pending", progress=40
    )
    page = await bob.get("/console/tasks")
    assert "2.5 MB" in page.text
    assert "1 min 15 s" in page.text
    assert page.find(r'href="(/videos/[^"]+)" download').startswith("/videos/" + "a" * 32)
    assert "The provider refused the prompt." in page.text
    assert "&lt;b&gt;bad&lt;/b&gt;" in page.html
    assert '<progress max="100" value="40"' in page.html
    assert 'data-refresh="3"' in page.html
    assert "slow" not in (await ada.get("/console/tasks")).text
    page = await ada.get("/console/tasks?owner=all")
    assert "bob@example.org" in page.text
    assert running[:14] in page.text
    assert "slow" not in (await ada.get("/console/tasks?owner=all&status=failed")).text
    assert "slow" in (await ada.get(f"/console/tasks?owner={ids['bob']}")).text
    for owner in ("all", ids["ada"]):
        page = await bob.get(f"/console/tasks?owner={owner}")
        assert "slow" in page.text  # his own: the address changes nothing for a member
        assert "Whose" not in page.text
    failed = await bob.get("/console/tasks?status=failed")
    assert "slow" not in failed.text
    assert "data-refresh" not in failed.html


async def test_tasks_are_paged(visit: Visit, services: Services) -> None:
    ada = visit()
    await ada.sign_up("ada@example.org")
    user = services.accounts.users.list_page()[0][0].id
    made = [await store(services, a_task(account=user), step="done", status="failed") for _ in range(PAGE_TASKS + 1)]
    page = await ada.get("/console/tasks")
    assert made[-1] in page.html
    assert made[0] not in page.html
    page = await ada.get(page.find(r'href="([^"]+)" rel="next"'))
    assert made[0] in page.html
    assert 'rel="next"' not in page.html
    assert (await ada.get("/console/tasks?after=video_x")).headers["Location"] == "/console/tasks"
