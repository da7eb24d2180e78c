"""`tornado-gate tasks`: what an operator sees of video tasks, and can do to them, with a server and without one."""

from __future__ import annotations

import asyncio
import importlib
import json
import re
import secrets
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
from click.testing import CliRunner, Result

from tests.support.gateway import Gateway
from tests.support.upstream import Upstream, answer
from tornado_gate.cli import cli
from tornado_gate.storage.media_folder import MediaFolder
from tornado_gate.tasks.file_store import FileTaskStore
from tornado_gate.tasks.record import TaskRecord, advance
from tornado_gate.tasks.webhook_secrets import WebhookSecretStore
from tornado_gate.types import VideoFile

PROMPT = "a cat on the moon"
KEY = "test-key-of-tasks"
HOUR = 3600.0
CONF = """
server: {data_dir: DIR}
videos: {keep_seconds: 7200}
"""

module = importlib.import_module("tornado_gate.cli.tasks")  # the package has the command under this name

StartGateway = Callable[..., Gateway]


class Desk:
    """An operator's desk: the commands, and the store that they look at."""

    def __init__(self, folder: Path) -> None:
        self.conf = folder / "gate.yaml"
        self.data = folder / "var"
        self.conf.write_text(CONF.replace("DIR", str(self.data)), encoding="utf-8")

    def run(self, *arguments: str) -> Result:
        command = ["tasks", *arguments, "--conf", str(self.conf)]
        return CliRunner().invoke(cli, command, prog_name="tornado-gate")

    def json(self, *arguments: str) -> Any:
        result = self.run(*arguments, "--json")
        assert result.exit_code == 0, result.output
        return json.loads(result.stdout)

    def ids(self, *arguments: str) -> list[str]:
        return [row["id"] for row in self.json("list", *arguments)]

    @property
    def store(self) -> FileTaskStore:
        return FileTaskStore(self.data / "tasks")

    def task(self, *, age: float = 0.0, **values: Any) -> TaskRecord:
        """A task that came `age` seconds ago, and stands as `values` say; ended ones ended when they came."""
        now = time.time() - age
        known: dict[str, Any] = {
            "id": "video_" + secrets.token_hex(16), "account": "acme", "caller_id": "key_1", "model": "film",
            "provider": "studio", "upstream_model": "film-1", "created_at": now, "updated_at": now,
            "deadline": now + HOUR, "request": {"prompt": PROMPT, "seconds": 4},
        }  # fmt: skip
        changes = {name: values.pop(name) for name in ("step", "status", "files", "operation") if name in values}
        made = TaskRecord(**{**known, **values})
        return asyncio.run(self._kept(made, changes))

    async def _kept(self, record: TaskRecord, changes: dict[str, Any]) -> TaskRecord:
        store = self.store
        kept = await store.create(record, None)
        if changes:
            lease = await store.acquire_lease(kept.id)
            assert lease is not None
            kept = advance(kept, **changes)
            await (store.finish(kept, lease) if kept.has_ended else store.save(kept, lease))
            await lease.release()
        return kept

    def done(self, *, age: float = 0.0, **values: Any) -> TaskRecord:
        moment = time.time() - age
        known = {"step": "done", "status": "completed", "completed_at": moment, "expires_at": moment + HOUR}
        return self.task(age=age, **{**known, **values})

    def video(self, size: int = 1000) -> VideoFile:
        """A file in the store of videos."""
        videos = MediaFolder(self.data / "videos", secret=b"", evicts=False)
        kept = asyncio.run(videos.put(b"v" * size, "video/mp4"))
        return VideoFile(id=kept.id, media_type="video/mp4", size=size)

    def get(self, record: TaskRecord) -> TaskRecord:
        return asyncio.run(self.store.get(record.id))

    def is_active(self, record: TaskRecord) -> bool:
        return record.id in [task.id for task in asyncio.run(self.store.list_active())]

    def is_gone(self, record: TaskRecord) -> bool:
        return self.run("show", record.id).exit_code == 1


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Desk:
    monkeypatch.setattr(module, "SERVER_PICK_UP_SECONDS", 0.2)
    return Desk(tmp_path)


# Help


@pytest.mark.parametrize("command", [[], ["list"], ["show"], ["cancel"], ["prune"]])
def test_every_command_explains_itself(command: list[str]) -> None:
    result = CliRunner().invoke(cli, ["tasks", *command, "--help"], prog_name="tornado-gate")
    assert result.exit_code == 0
    assert result.output.startswith("Usage: tornado-gate tasks")
    assert not command or f"  tornado-gate tasks {command[0]} " in result.output, "there is no example"


@pytest.mark.parametrize(
    "command",
    [["list", "--status", "lost"], ["list", "--limit", "0"], ["show"], ["cancel"], ["prune", "--older-than", "soon"]],
)
def test_a_wrong_command_line_is_exit_code_2(desk: Desk, command: list[str]) -> None:
    assert desk.run(*command).exit_code == 2


# list


def test_open_tasks_come_first_then_the_others_and_the_newest_of_each_first(desk: Desk) -> None:
    old_open = desk.task(age=500, account="other")
    new_open = desk.task(age=400, step="running", status="pending", operation={"id": "j"})
    old_done = desk.done(age=300, account="other")
    new_done = desk.done(age=5, status="failed", error_code="generation_failed")
    assert desk.ids() == [new_open.id, old_open.id, new_done.id, old_done.id]
    lines = desk.run("list").output.splitlines()
    assert [line.split()[0] for line in lines] == ["ID", new_open.id, old_open.id, new_done.id, old_done.id]
    assert lines[3].split()[1:5] == ["acme", "film", "studio", "failed"]
    assert lines[3].split()[-1] == "generation_failed"


def test_tasks_are_narrowed_by_account_and_status(desk: Desk) -> None:
    mine, other = desk.done(age=9), desk.done(account="other")
    waiting = desk.task()
    failed = desk.done(age=20, status="failed")
    assert desk.ids("--account", "acme") == [waiting.id, mine.id, failed.id]
    assert desk.ids("--account", "acme", "--status", "completed") == [mine.id]
    assert desk.ids("--status", "completed") == [other.id, mine.id]
    assert desk.ids("--status", "queued") == [waiting.id]
    assert desk.ids("--status", "pending") == []
    assert desk.ids("--account", "nobody") == []


@pytest.mark.parametrize("narrowed", [[], ["--account", "acme"], ["--account", "acme", "--status", "completed"]])
def test_a_limit_keeps_the_first_and_says_that_there_are_more(desk: Desk, narrowed: list[str]) -> None:
    made = [desk.done(age=age) for age in (30, 20, 10)]
    result = desk.run("list", "--limit", "2", *narrowed)
    assert [line.split()[0] for line in result.stdout.splitlines()[1:]] == [made[2].id, made[1].id]
    assert "Only the first 2" in result.stderr
    assert "more" not in desk.run("list", "--limit", "3", *narrowed).stderr


def test_where_no_task_ever_was_nothing_is_listed_and_nothing_is_made(desk: Desk) -> None:
    assert desk.ids() == []
    assert desk.run("list").output.startswith("ID")
    assert not (desk.data / "tasks").exists()


def test_what_cannot_be_read_does_not_hide_the_others(desk: Desk) -> None:
    good, damaged, newer = desk.task(), desk.task(), desk.task(version=99)
    (path,) = (desk.data / "tasks/records").rglob(f"{damaged.id}.json")
    path.write_bytes(path.read_bytes()[:-20])
    (path.parent / "notes.txt").write_text("not a record")
    (desk.data / "tasks/records/zz").write_text("not a folder")
    assert desk.ids() == [good.id]
    result = desk.run("show", newer.id)
    assert result.exit_code == 1
    assert "newer version" in result.stderr


# show


def test_a_task_is_shown_with_all_that_an_operator_needs(desk: Desk) -> None:
    here, lost = desk.video(1234), VideoFile(id="0" * 32 + ".mp4", media_type="video/mp4", size=9, duration=4.0)
    record = desk.done(
        files=(here, lost), failures=2, started_at=1_800_000_000.0, completed_at=1_800_000_060.0,
        error_message="", remixed_from="video_" + "1" * 32, image={"media_type": "image/png", "filename": "x", "size": 3},
    )  # fmt: skip
    told = desk.json("show", record.id)
    assert told["id"] == record.id
    assert (told["account"], told["caller"], told["model"], told["provider"]) == ("acme", "key_1", "film", "studio")
    assert (told["upstream_model"], told["step"], told["status"]) == ("film-1", "done", "completed")
    assert (told["started"], told["completed"]) == ("2027-01-15T08:00:00Z", "2027-01-15T08:01:00Z")
    assert (told["failures"], told["remixed_from"]) == (2, "video_" + "1" * 32)
    assert told["image"] == {"media_type": "image/png", "size": 3}
    assert [(file["size"], file["is_there"]) for file in told["files"]] == [(1234, True), (9, False)]
    assert Path(told["files"][0]["path"]).stat().st_size == 1234
    text = desk.run("show", record.id).output
    assert re.search(rf"^id: +{record.id}$", text, re.M)
    assert len(re.findall(r"^files: +path ", text, re.M)) == 2


def test_a_failure_is_shown_with_its_code_and_words(desk: Desk) -> None:
    record = desk.done(status="failed", error_code="generation_failed", error_message="The upstream had no paint.")
    told = desk.json("show", record.id)
    assert (told["error"], told["error_message"]) == ("generation_failed", "The upstream had no paint.")
    assert "The upstream had no paint." in desk.run("show", record.id).output


def test_what_was_asked_for_is_shown_only_to_who_asks_for_it(desk: Desk) -> None:
    hook = {"url": "https://user:pass@hooks.example/secret-path?token=1", "attempts": 3}
    record = desk.task(step="running", status="pending", operation={"id": "job-of-upstream"}, webhook=hook)
    secret = [PROMPT, "job-of-upstream", "secret-path", "token=1", "pass"]
    for result in (desk.run("show", record.id), desk.run("show", record.id, "--json"), desk.run("list", "--json")):
        assert [word for word in secret if word in result.output] == []
    told = desk.json("show", record.id)
    assert told["webhook"] == {
        "url": "https://hooks.example", "state": "waiting", "failed_attempts": 3, "next_attempt": None,
    }  # fmt: skip
    told = desk.json("show", record.id, "--prompt")
    assert told["request"]["prompt"] == PROMPT
    assert told["operation"] == {"id": "job-of-upstream"}
    assert told["webhook"]["url"] == hook["url"]
    assert PROMPT in desk.run("show", record.id, "--prompt").output


@pytest.mark.parametrize(("step", "state"), [("telling", "telling"), ("done", "over")])
def test_a_webhook_is_shown_as_it_stands(desk: Desk, step: str, state: str) -> None:
    hook = {"url": "http://[", "attempts": 1, "next_at": 1_800_000_000.0}
    told = desk.json("show", desk.done(step=step, webhook=hook).id)["webhook"]
    assert (told["state"], told["failed_attempts"], told["url"]) == (state, 1, "")
    assert told["next_attempt"] == ("2027-01-15T08:00:00Z" if step == "telling" else None)


def test_what_others_wrote_gives_the_terminal_no_orders(desk: Desk) -> None:
    record = desk.done(status="failed", model="film\x1b[2J", error_message="\x1b]0;owned\x07\nid: another")
    for result in (desk.run("list"), desk.run("show", record.id)):
        assert "\x1b" not in result.output
        assert "\x07" not in result.output
    assert "\nid: another" not in desk.run("show", record.id).output


@pytest.mark.parametrize("command", ["show", "cancel"])
@pytest.mark.parametrize("id_", ["video_" + "0" * 32, "x", "../../etc/passwd", ""])
def test_an_id_that_nobody_has_is_exit_code_1_with_a_way_out(desk: Desk, command: str, id_: str) -> None:
    result = desk.run(command, id_)
    assert result.exit_code == 1
    assert f"there is no task with the ID '{id_}'" in result.stderr
    assert "tasks list" in result.stderr
    assert "Traceback" not in result.output


# cancel


def test_a_waiting_task_is_ended_by_the_command_itself(desk: Desk) -> None:
    record = desk.task()
    result = desk.run("cancel", record.id)
    assert (result.exit_code, result.output) == (0, f"{record.id} is cancelled.\n")
    ended = desk.get(record)
    assert (ended.step, ended.status, ended.error_code) == ("done", "failed", "cancelled")
    assert ended.expires_at == pytest.approx(time.time() + 7200, abs=60)
    assert ended.completed_at == pytest.approx(time.time(), abs=60)
    assert not desk.is_active(record)
    again = desk.run("cancel", record.id)
    assert (again.exit_code, again.output) == (0, f"{record.id} is cancelled.\n")


def test_a_task_that_its_upstream_knows_is_ended_with_a_warning(desk: Desk) -> None:
    record = desk.task(step="running", status="pending", operation={"id": "job"})
    result = desk.run("cancel", record.id)
    assert result.exit_code == 0
    assert "was not cancelled at its upstream" in result.stderr
    assert desk.get(record).error_code == "cancelled"


@pytest.mark.parametrize("status", ["completed", "failed"])
@pytest.mark.parametrize("step", ["telling", "done"])
def test_a_task_that_has_ended_cannot_be_cancelled(desk: Desk, step: str, status: str) -> None:
    record = desk.done(step=step, status=status)
    result = desk.run("cancel", record.id)
    assert result.exit_code == 1
    assert f"it is {status} already" in result.stderr
    assert desk.get(record) == record


def test_the_webhook_of_a_cancelled_task_is_left_for_a_server_to_tell(desk: Desk) -> None:
    record = desk.task(webhook={"url": "https://hooks.example/x"})
    assert desk.run("cancel", record.id).exit_code == 0
    ended = desk.get(record)
    assert (ended.step, ended.status, ended.error_code) == ("telling", "failed", "cancelled")
    assert desk.is_active(record)
    assert not desk.json("show", record.id)["cancel_requested"]


def test_whoever_runs_a_task_and_does_not_stop_is_told_of(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CANCEL_SECONDS", 0.5)
    record = desk.task()
    lease = asyncio.run(desk.store.acquire_lease(record.id))
    assert lease is not None
    result = desk.run("cancel", record.id)
    assert result.exit_code == 1
    assert "was requested to stop, but was still running after 0.5 s" in result.stderr
    assert desk.get(record).status == "queued"
    assert desk.json("show", record.id)["cancel_requested"]
    asyncio.run(lease.release())


GATEWAY = """
plugins: {{openai: true}}
providers:
  studio: {{plugin: openai, base_url: "{url}/v1", api_key: key-of-the-upstream}}
models:
  film: {{provider: studio, model: sora-2, operations: [videos]}}
videos: {{poll_seconds: 0.1, concurrency: 1}}
keys:
  - {{name: test, account: acme, key: {key}}}
"""
FOR_EVER = {"id": "video_of_upstream", "object": "video", "status": "in_progress", "progress": 10, "model": "sora-2"}


def begin(gateway: Gateway) -> str:
    response = httpx.post(
        gateway.url + "/v1/videos", json={"model": "film", "prompt": PROMPT, "seconds": "4"},
        headers={"Authorization": f"Bearer {KEY}"}, trust_env=False, timeout=30,
    )  # fmt: skip
    assert response.status_code == 200, response.text
    return str(response.json()["id"])


def run_beside(gateway: Gateway, *arguments: str) -> Result:
    command = [
        "tasks",
        *arguments,
        "--conf",
        str(gateway.folder / "gate.yaml"),
        "--data-dir",
        str(gateway.folder / "var"),
    ]
    return CliRunner().invoke(cli, command, prog_name="tornado-gate")


def test_a_running_server_stops_the_task_and_tells_its_upstream(
    start_gateway: StartGateway, upstream: Upstream
) -> None:
    upstream.script(answer(json.dumps(FOR_EVER), repeat=True))
    gateway = start_gateway(GATEWAY.format(url=upstream.url, key=KEY))
    running, waiting = begin(gateway), begin(gateway)
    upstream.wait_for_requests(3)  # it is begun, and polled
    rows = json.loads(run_beside(gateway, "list", "--json").stdout)
    assert {row["id"]: row["status"] for row in rows} == {running: "pending", waiting: "queued"}
    for task_id in (waiting, running):
        result = run_beside(gateway, "cancel", task_id)
        assert (result.exit_code, result.output) == (0, f"{task_id} is cancelled.\n")
    seen = httpx.get(
        f"{gateway.url}/v1/videos/{running}", headers={"Authorization": f"Bearer {KEY}"}, trust_env=False, timeout=30
    ).json()
    assert (seen["status"], seen["error"]["code"]) == ("failed", "cancelled")
    requests = upstream.requests
    assert [request.path for request in requests if request.method == "DELETE"] == ["/v1/videos/video_of_upstream"]
    assert len([request for request in requests if request.method == "POST"]) == 1, "the waiting one was begun"


# prune


def test_what_has_expired_is_removed_with_its_files_and_nothing_else(desk: Desk) -> None:
    file, kept_file = desk.video(1000), desk.video(10)
    expired = desk.done(age=2 * HOUR, files=(file,))
    fresh, open_, telling = desk.done(files=(kept_file,)), desk.task(age=3 * HOUR), desk.done(step="telling", age=9e5)
    result = desk.run("prune")
    assert (result.exit_code, result.output) == (0, "1 tasks with 1 video files of 1000 bytes were removed.\n")
    assert desk.is_gone(expired)
    assert sorted(desk.ids()) == sorted([fresh.id, open_.id, telling.id])
    left = {path.name for path in (desk.data / "videos").iterdir()}
    assert left == {kept_file.id, f"{kept_file.id}.about"}


def test_what_ended_long_ago_is_removed_before_its_time(desk: Desk) -> None:
    old = desk.done(age=9 * 86400.0, expires_at=time.time() + HOUR, files=(desk.video(7), desk.video(8)))
    young = desk.done(age=6 * 86400.0, expires_at=time.time() + HOUR)
    assert desk.run("prune", "--older-than", "7d").output == "1 tasks with 2 video files of 15 bytes were removed.\n"
    assert desk.ids() == [young.id]
    assert desk.is_gone(old)
    assert desk.run("prune", "--older-than", "0m").output.startswith("1 tasks with 0 video files")
    assert desk.ids() == []


def test_a_dry_run_says_the_same_and_removes_nothing(desk: Desk) -> None:
    record = desk.done(age=2 * HOUR, files=(desk.video(500), VideoFile(id="f" * 32 + ".mp4", media_type="", size=99)))
    dry = desk.run("prune", "--dry-run")
    assert dry.output == "1 tasks with 1 video files of 500 bytes would be removed.\n"
    assert desk.ids() == [record.id]
    assert len(list((desk.data / "videos").iterdir())) == 2
    assert desk.run("prune").output == "1 tasks with 1 video files of 500 bytes were removed.\n"


def test_pruning_where_nothing_ever_was_is_no_fault(desk: Desk) -> None:
    assert desk.run("prune").output == "0 tasks with 0 video files of 0 bytes were removed.\n"
    assert not (desk.data / "tasks").exists()


# webhook-secret


def test_the_secret_of_an_account_is_shown_rotated_and_turned_off(desk: Desk) -> None:
    def show(*arguments: str) -> str:
        result = desk.run("webhook-secret", "--account", "acme", *arguments)
        assert result.exit_code == 0, result.output
        return result.stdout.strip()

    first = show()
    assert re.fullmatch(r"whsec_[A-Za-z0-9+/]{43}=", first)
    assert show() == first
    assert desk.run("webhook-secret", "--account", "other").stdout.strip() != first
    second = show("--rotate")
    assert second != first
    assert WebhookSecretStore(desk.data).get("acme") == (second, first)
    assert show("--off") == ""
    assert WebhookSecretStore(desk.data).get("acme") == ()
    assert show("--rotate") not in (first, second)
    assert desk.run("webhook-secret", "--account", "acme", "--rotate", "--off").exit_code == 2
    assert desk.run("webhook-secret").exit_code == 2
