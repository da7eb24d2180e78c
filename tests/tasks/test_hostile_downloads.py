"""A finished video that cannot be downloaded, from the provider's host and from another one: bounded memory, disk and time, no
file that looks complete, a closed connection, and an error that is counted."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.support.gateway import Gateway
from tests.support.hostile_files import ATTACKS, FILES, MIB, MOVIE
from tests.support.process import Child
from tests.support.variants import choose
from tests.support.videos import KEY, Client
from tornado_gate.tasks.record import TaskRecord, decode_record

FILE_BYTES = 3 * MIB
CONF = """
plugins: {{openai: true, gemini: true}}
providers:
{providers}
models:
{models}
limits: {{file_bytes: {file_bytes}}}
videos: {{concurrency: 1, poll_seconds: 0.02, download_seconds: 2}}
fetch: {{allow_private: true, seconds: 1}}
circuits: {{failures: 1, open_seconds: 600}}
keys: [{{name: test, key: {key}, account: test}}]
"""
PROVIDERS = """
  own-{name}: {{plugin: openai, base_url: "{url}/{name}/v1", api_key: key-of-the-upstream, timeouts: {{first_event: 2, gap: 1}}}}
  other-{name}: {{plugin: gemini, base_url: "{url}/{name}", api_key: key-of-the-upstream, timeouts: {{first_event: 2, gap: 1}}}}
"""
TOO_LARGE = {"own": "upstream_answer_too_large", "other": "upstream_file_too_large"}
UNREACHABLE, TIMEOUT, LOST = "upstream_file_unreachable", "upstream_timeout", "upstream_lost"
FINAL = dict.fromkeys(("endless", "tiny-chunks", "announced"), TOO_LARGE) | {
    "bomb": {"own": "upstream_compression_too_high", "other": "upstream_file_too_large"}
}
"""Downloads that are not tried again, and the codes that are counted."""
TRIED_AGAIN = {
    "drip": {"own": TIMEOUT, "other": TIMEOUT},
    "halt": {"own": TIMEOUT, "other": TIMEOUT},
    "silent": {"own": TIMEOUT, "other": UNREACHABLE},
    "headers": {"own": "upstream_error", "other": UNREACHABLE},
    "long": {"own": LOST, "other": UNREACHABLE},
    "short": {"own": "upstream_no_video", "other": "upstream_no_video"},
    "cut": {"own": "upstream_no_video", "other": "upstream_no_video"},
    "reset": {"own": LOST, "other": "upstream_no_video"},
    "part": {"own": "upstream_error", "other": UNREACHABLE},
    "page": {"own": "upstream_no_video", "other": "upstream_wrong_media_type"},
    "redirects": {"own": "upstream_error", "other": UNREACHABLE},
}
HOSTS = ("own", "other")
CASES = [(host, attack) for attack in ATTACKS for host in HOSTS]
FIRST_CASES = [("own", "announced"), ("other", "bomb"), ("own", "silent"), ("other", "cut")]
"""Those of `make test`."""
GROWTH_BYTES = 64 * MIB
"""What the gateway may need more than before, at its most, for all attacks of this file one after the other."""


class VideoSite:
    """The gateway, what it has on the disk, and what it counts."""

    def __init__(self, gateway: Gateway, upstream: str) -> None:
        self.gateway = gateway
        self.upstream = upstream
        self.client = Client(gateway.url)
        self.folder = gateway.folder / "var"

    def read(self, task: str) -> TaskRecord:
        return decode_record((self.folder / "tasks" / "records" / task[6:8] / f"{task}.json").read_bytes())

    def wait_for_failure(self, task: str) -> TaskRecord:
        """The record of the task as soon as a download of its video has failed."""
        ends = time.monotonic() + 60
        while time.monotonic() < ends:
            record = self.read(task)
            if record.failures or record.has_ended:
                return record
            self.client.shown(task, wait=0.05)
        raise AssertionError(f"no download failed: {record}")

    def wait_for_closed(self, attack: str) -> None:
        httpx.get(f"{self.upstream}/__closed/{attack}", trust_env=False, timeout=60).raise_for_status()

    def list_files(self) -> list[str]:
        return [path.name for path in (self.folder / "videos").glob("*")]

    def measure_peak(self) -> int:
        status = Path(f"/proc/{self.gateway.child.process.pid}/status").read_text(encoding="ascii")
        found = re.search(r"VmHWM:\s+(\d+) kB", status)
        assert found
        return int(found[1]) * 1024

    def count(self, name: str, *labels: str) -> float:
        text = httpx.get(f"{self.gateway.url}/metrics", trust_env=False, timeout=60).text
        lines = [line for line in text.splitlines() if line.startswith(f"tornado_gate_{name}{{")]
        return sum(float(line.rpartition(" ")[2]) for line in lines if all(label in line for label in labels))


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[VideoSite]:
    child = Child([sys.executable, "-m", "tests.support.hostile_files"])
    url = child.wait_for_line(r"serving (http://\S+)")[1]
    conf = CONF.format(
        key=KEY,
        file_bytes=FILE_BYTES,
        providers="".join(PROVIDERS.format(name=name, url=url) for name in FILES),
        models="\n".join(
            f"  {host}-{name}: {{provider: {host}-{name}, model: veo-3.1-generate-preview}}"
            for host in HOSTS
            for name in FILES
        ),
    )
    gateway = Gateway.start(conf, tmp_path_factory.mktemp("hostile"))
    yield VideoSite(gateway, url)
    gateway.stop()
    child.stop()


@pytest.fixture(scope="module")
def memory_before(site: VideoSite) -> int:
    """After a first failure of each kind of host, which imports what downloads need."""
    for host in HOSTS:
        site.client.ended(site.client.create(model=f"{host}-first"))
    return site.measure_peak()


def test_every_attack_has_an_outcome() -> None:
    assert FINAL.keys() | TRIED_AGAIN.keys() == ATTACKS.keys()


@pytest.mark.qa
@pytest.mark.parametrize(("host", "attack"), choose(CASES, FIRST_CASES))
def test_a_video_that_cannot_be_downloaded_is_given_up(
    site: VideoSite, memory_before: int, host: str, attack: str
) -> None:
    provider = f'provider="{host}-{attack}"'
    task = site.client.create(model=f"{host}-{attack}")
    failed = site.wait_for_failure(task)
    site.wait_for_closed(attack)
    assert failed.files == ()
    if attack in FINAL:
        code = FINAL[attack][host]
        assert (failed.status, failed.error_code) == ("failed", "download_failed")
        if code in TOO_LARGE.values():
            assert f"{FILE_BYTES} bytes, " in str(failed.error_message)
            assert "limits.file_bytes" in str(failed.error_message)
        else:
            assert "compressed" in str(failed.error_message)
    else:
        code = TRIED_AGAIN[attack][host]
        assert failed.status == "pending"
        assert site.client.content(task).status_code == 404
    site.client.delete(task)
    assert site.list_files() == []
    assert site.count("upstream_errors_total", provider, f'kind="{code}"') >= 1
    assert site.client.post(model=f"{host}-{attack}").status_code == 503, "the circuit is open"
    assert site.measure_peak() - memory_before < GROWTH_BYTES


def test_a_running_download_ends_with_its_task(site: VideoSite) -> None:
    """A task is deleted while its video arrives, far from the time limit of the download."""
    task = site.client.create(model="own-slow")
    site.client.waits_for(task, "pending")
    assert site.client.delete(task).status_code == 200
    site.wait_for_closed("slow")
    assert site.list_files() == []


@pytest.mark.parametrize("host", HOSTS)
def test_a_whole_video_is_accepted_from_the_same_upstream(site: VideoSite, host: str) -> None:
    task = site.client.create(model=f"{host}-whole")
    site.client.completed(task)
    assert site.client.content(task).content == MOVIE
    site.client.delete(task)
