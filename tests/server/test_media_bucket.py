"""Two gateways with one bucket: what one of them stores, the other serves. The object store is an emulator in another process."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest

from tests.support.gateway import Gateway, run_command
from tests.support.s3 import BUCKET, S3, SECRET

KEY = "test-key-of-two-nodes"
CONF = f"""
plugins: {{local: true}}
providers: {{local: {{plugin: local}}}}
models: {{local-image-1: {{provider: local}}, local-video: {{provider: local}}}}
keys: [{{name: test, key: {KEY}}}]
"""
IMAGE: dict[str, Any] = {"model": "local-image-1", "prompt": "a cat", "size": "256x256"}
VIDEO: dict[str, Any] = {"model": "local-video", "prompt": "a cat", "seconds": "1", "size": "64x64"}
WAIT_SECONDS = 60.0


@pytest.fixture(scope="module")
def s3() -> Iterator[S3]:
    emulator = S3()
    yield emulator
    emulator.kill()


@pytest.fixture(scope="module")
def nodes(s3: S3, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Gateway, Gateway]]:
    """Two nodes, of which the first has two processes."""
    conf = CONF + s3.make_conf()
    first = Gateway.start(conf, tmp_path_factory.mktemp("first"), "--processes", "2")
    second = Gateway.start(conf, tmp_path_factory.mktemp("second"))
    yield first, second
    for node in (first, second):
        output = node.stop()
        assert node.child.process.returncode == 0, output
        assert SECRET not in output


@pytest.fixture
def outage(s3: S3) -> Iterator[S3]:
    """The object store, which may be killed: afterwards it runs again, with an empty bucket."""
    yield s3
    s3.kill()
    s3.start()


def ask(node: Gateway, method: str, path: str, *, key: str = KEY, **rest: Any) -> httpx.Response:
    headers = {**({"authorization": f"Bearer {key}"} if key else {}), **rest.pop("headers", {})}
    return httpx.request(method, node.url + path, headers=headers, trust_env=False, timeout=60, **rest)


def poll(look: Callable[[], bool]) -> None:
    """Look again until it is true; that another process has changed something is not told to a client."""
    ends = time.monotonic() + WAIT_SECONDS
    while not look():
        assert time.monotonic() < ends
        time.sleep(0.1)


def make_image(node: Gateway) -> str:
    """The path of a new image."""
    made = ask(node, "POST", "/v1/images/generations", json=IMAGE)
    assert made.status_code == 200, made.text
    parts = urlsplit(made.json()["data"][0]["url"])
    return f"{parts.path}?{parts.query}"


def make_video(node: Gateway) -> str:
    """The id of a new completed video."""
    task: str = ask(node, "POST", "/v1/videos", json=VIDEO).json()["id"]
    shown = ask(node, "GET", f"/v1/videos/{task}", params={"wait": "60"}).json()
    poll(lambda: ask(node, "GET", f"/v1/videos/{task}").json()["status"] == "completed")
    assert shown["id"] == task
    return task


def find_video_path(node: Gateway, task: str) -> str:
    """The signed path of a task's video."""
    shown = ask(node, "GET", f"/vendor/v1/videos/text2video/{task}").json()
    parts = urlsplit(shown["videos"][0]["url"])
    return f"{parts.path}?{parts.query}"


def test_an_image_of_one_node_is_served_and_edited_at_the_other(nodes: tuple[Gateway, Gateway], s3: S3) -> None:
    first, second = nodes
    path = make_image(first)
    image, same = (ask(node, "GET", path, key="") for node in nodes)
    assert (image.status_code, image.headers["content-type"]) == (200, "image/png")
    assert same.content == image.content
    for name in ("etag", "last-modified", "content-disposition", "content-length"):
        assert same.headers[name] == image.headers[name]
    cached = ask(second, "GET", path, key="", headers={"if-none-match": image.headers["etag"]})
    assert (cached.status_code, cached.content) == (304, b"")
    edited = ask(second, "POST", "/v1/images/edits", json={**IMAGE, "images": [{"image_url": second.url + path}]})
    assert edited.status_code == 200, edited.text
    assert ask(second, "GET", path[:-1] + "xy"[path.endswith("x")], key="").status_code == 404
    assert f"gate{urlsplit(path).path}" in s3.list_keys("gate/media/")
    assert list((first.folder / "var" / "media").iterdir()) == []


def test_an_image_of_one_node_begins_a_video_at_the_other(nodes: tuple[Gateway, Gateway]) -> None:
    first, second = nodes
    body = {**VIDEO, "input_reference": {"image_url": first.url + make_image(first)}}
    created = ask(second, "POST", "/v1/videos", json=body)
    assert created.status_code == 200, created.text


def test_a_video_of_one_node_is_streamed_in_ranges_at_the_other(nodes: tuple[Gateway, Gateway]) -> None:
    first, second = nodes
    task = make_video(first)
    whole = ask(first, "GET", f"/v1/videos/{task}/content").content
    path = find_video_path(first, task)
    part = ask(second, "GET", path, key="", headers={"range": "bytes=100-199"})
    assert (part.status_code, part.headers["content-range"]) == (206, f"bytes 100-199/{len(whole)}")
    assert part.content == whole[100:200]
    assert ask(second, "GET", path, key="").content == whole
    tail = ask(second, "GET", path, key="", headers={"range": "bytes=-10"})
    assert tail.content == whole[-10:]
    head = ask(second, "HEAD", path, key="")
    assert (head.status_code, head.headers["content-length"], head.content) == (200, str(len(whole)), b"")
    beyond = ask(second, "GET", path, key="", headers={"range": f"bytes={len(whole)}-"})
    assert beyond.status_code == 416
    assert ask(first, "DELETE", f"/v1/videos/{task}").status_code == 200
    assert ask(second, "GET", path, key="").status_code == 404


@pytest.mark.qa
def test_a_node_that_lost_its_disk_serves_what_it_made(s3: S3, tmp_path: Path) -> None:
    (tmp_path / "before").mkdir()
    (tmp_path / "after").mkdir()
    node = Gateway.start(CONF + s3.make_conf(), tmp_path / "before")
    paths = [make_image(node), find_video_path(node, make_video(node))]
    node.stop()
    node = Gateway.start(CONF + s3.make_conf(), tmp_path / "after")
    assert [ask(node, "GET", path, key="").status_code for path in paths] == [200, 200]
    node.stop()


def find_pending_folders(node: Gateway) -> set[str]:
    metrics = ask(node, "GET", "/metrics").text
    pending = re.findall(r'tornado_gate_bucket_pending_bytes\{folder="(\w+)"[^}]*\} (\S+)', metrics)
    return {folder for folder, size in pending if float(size)}


@pytest.mark.qa
def test_files_wait_on_their_node_until_the_object_store_is_back(nodes: tuple[Gateway, Gateway], outage: S3) -> None:
    first, second = nodes
    outage.kill()
    image = make_image(first)
    video = find_video_path(first, make_video(first))
    for path in (image, video):
        assert ask(first, "GET", path, key="").status_code == 200
        away = ask(second, "GET", path, key="")
        assert (away.status_code, away.json()["error"]["code"]) == (503, "storage_unavailable")
        assert away.headers["retry-after"] == "5"
        assert "object store" in away.json()["error"]["message"]
    begun = time.monotonic()
    assert {ask(second, "GET", image, key="").status_code for _ in range(20)} == {503}
    assert time.monotonic() - begun < 30
    poll(lambda: find_pending_folders(first) == {"media", "videos"})  # after the next look at the waiting files
    outage.start()
    for path in (image, video):
        poll(lambda path=path: ask(second, "GET", path, key="").status_code == 200)  # type: ignore[misc]
    poll(lambda: not any(any((first.folder / "var" / name).iterdir()) for name in ("media", "videos")))


def test_a_reload_keeps_the_bucket(nodes: tuple[Gateway, Gateway], s3: S3) -> None:
    second = nodes[1]
    file = second.folder / "gate.yaml"
    before = file.read_text()
    file.write_text(before.replace(f"s3://{BUCKET}/gate", f"s3://{BUCKET}/other"))
    second.wait_for_log("restart the gateway to apply changed settings: media.store")
    file.write_text(before)


@pytest.mark.qa
def test_callers_may_be_redirected_to_the_bucket(s3: S3, tmp_path: Path) -> None:
    node = Gateway.start(CONF + s3.make_conf(redirect=True), tmp_path)
    path = make_image(node)
    moved = ask(node, "GET", path, key="")
    assert moved.status_code == 307
    assert moved.headers["location"].startswith(f"{s3.url}/{BUCKET}/gate/media/")
    part = httpx.get(moved.headers["location"], headers={"range": "bytes=0-3"}, trust_env=False)
    assert (part.status_code, part.content, part.headers["content-type"]) == (206, b"\x89PNG", "image/png")
    assert part.headers["content-disposition"].startswith("inline; filename=")
    task = make_video(node)
    assert ask(node, "GET", f"/v1/videos/{task}/content").status_code == 307
    assert ask(node, "GET", path[:-1] + "xy"[path.endswith("x")], key="").status_code == 404
    node.stop()


@pytest.mark.qa
def test_commands_for_tasks_find_their_videos_in_the_bucket(s3: S3, tmp_path: Path) -> None:
    node = Gateway.start(CONF + s3.make_conf("commands"), tmp_path)
    task = make_video(node)
    node.stop()
    options = ("--conf", "gate.yaml", "--data-dir", "var")
    shown = run_command("tasks", "show", task, *options, "--json", folder=tmp_path)
    (file,) = json.loads(shown.stdout)["files"]
    assert (file["path"].rpartition("/")[0], file["is_there"]) == (f"s3://{BUCKET}/commands/videos", True)
    pruned = run_command("tasks", "prune", "--older-than", "0s", *options, folder=tmp_path)
    assert pruned.stdout == f"1 tasks with 1 video files of {file['size']} bytes were removed.\n", pruned.stderr
    assert s3.list_keys("commands/videos/") == []


def test_files_are_encrypted_as_the_options_say(s3: S3, tmp_path: Path) -> None:
    options = {"region": "eu-central-1", "access_key_id": "${S3_ID}", "secret_access_key": "${S3_KEY}"}
    encryption = {"server_side_encryption": "aws:kms", "sse_kms_key_id": "a-key"}
    conf = CONF + s3.make_conf("encrypted", options=options | encryption, secret="s" * 32)
    node = Gateway.start(conf, tmp_path, environment={"S3_ID": "an-id", "S3_KEY": SECRET})
    path = make_image(node)
    stored = s3.client.head_object(Bucket=BUCKET, Key=f"encrypted{urlsplit(path).path}")
    assert (stored["ServerSideEncryption"], stored["SSEKMSKeyId"]) == ("aws:kms", "a-key")
    assert s3.list_keys("encrypted/signing") == []  # the secret is that of conf
    assert ask(node, "GET", path, key="").status_code == 200
    assert SECRET not in node.stop()


def refuse(conf: str, folder: Path, environment: dict[str, str] | None = None) -> str:
    """The message with which a start with this section `media` fails."""
    (folder / "gate.yaml").write_text(CONF + conf)
    failed = run_command(
        "serve", "--port", "0", "--data-dir", "var", "--conf", "gate.yaml", folder=folder, environment=environment
    )
    assert failed.returncode == 1, failed.stderr
    assert SECRET not in failed.stderr
    assert "Traceback" not in failed.stderr
    return failed.stderr


@pytest.mark.qa
def test_a_start_names_what_is_wrong_with_the_bucket(s3: S3, tmp_path: Path) -> None:
    line = 1 + CONF.count("\n")
    missing = refuse(s3.make_conf(store="s3://no-such-bucket/x"), tmp_path)
    assert f"gate.yaml:{line}: media.store: the bucket does not exist" in missing
    unreachable = refuse(s3.make_conf(endpoint="http://127.0.0.1:1"), tmp_path)
    assert f"gate.yaml:{line}: media.endpoint: the object store cannot be reached" in unreachable
    unknown = refuse(s3.make_conf(options={"regoin": "eu"}), tmp_path)
    assert f"gate.yaml:{line}: media.options.regoin: is no option of s3:// buckets" in unknown


@pytest.mark.qa
def test_a_start_names_a_damaged_secret_missing_credentials_and_a_missing_library(s3: S3, tmp_path: Path) -> None:
    line = 1 + CONF.count("\n")
    s3.client.put_object(Bucket=BUCKET, Key="damaged/signing-secret", Body=b"x")
    damaged = refuse(s3.make_conf("damaged"), tmp_path)
    assert f"gate.yaml:{line}: media.store: the object signing-secret of the bucket is damaged" in damaged
    metadata = {"region": "eu-central-1", "metadata_endpoint": "http://127.0.0.1:1/169.254.169.254"}
    missing = refuse(s3.make_conf(options=metadata), tmp_path)
    assert (
        f"gate.yaml:{line}: media.store: has no credentials: set them in media.options or in the environment" in missing
    )
    (tmp_path / "obstore.py").write_text("raise ImportError")
    without = refuse(s3.make_conf(), tmp_path, {"PYTHONPATH": str(tmp_path)})
    assert f"gate.yaml:{line}: media.store: needs the package 'obstore': install tornado-gate[object-store]" in without


@pytest.mark.qa
def test_a_start_names_the_missing_right(s3: S3, tmp_path: Path) -> None:
    actions = ["s3:PutObject", "s3:GetObject", "s3:ListBucket", "s3:DeleteObject"]
    users = [s3.make_user("s3:ListAllMyBuckets", *actions[:count]) for count in range(5)]
    s3.check_rights(True)
    try:
        for user, action in zip(users[:4], actions, strict=True):
            assert f"media.store: the credentials lack the right to {RIGHTS[action]} objects: {action}" in refuse(
                s3.make_conf(options=user), tmp_path
            )
        wrong = refuse(s3.make_conf(options=users[4] | {"secret_access_key": SECRET}), tmp_path)
        assert "media.options: the object store refuses the credentials" in wrong
        Gateway.start(CONF + s3.make_conf("rights", options=users[4]), tmp_path).stop()
    finally:
        s3.check_rights(False)


RIGHTS = {"s3:PutObject": "write", "s3:GetObject": "read", "s3:ListBucket": "list", "s3:DeleteObject": "delete"}
