"""Files that the gateway serves: to whoever has a signed address, in parts, at the reader's pace, from one folder only."""

from __future__ import annotations

import asyncio
import logging
import os
import re
import stat
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tornado.httpclient import HTTPResponse
from tornado.httpserver import HTTPServer
from tornado.iostream import IOStream, StreamClosedError
from tornado.simple_httpclient import HTTPStreamClosedError
from tornado.tcpclient import TCPClient
from tornado.web import Application

from tests.support.served import Ask, error_of
from tornado_gate.errors import NotFound
from tornado_gate.pipeline.gate import Gate
from tornado_gate.server.handlers.files import RangeNotSatisfiable, parse_range
from tornado_gate.server.handlers.media import MediaHandler
from tornado_gate.storage import files, media_folder
from tornado_gate.storage.files import MediaFile, format_content_disposition, load_media_secret
from tornado_gate.storage.media_folder import MediaFolder
from tornado_gate.types import replace

DATA = bytes(range(256)) * 4


@pytest.fixture
def store(tmp_path: Path) -> MediaFolder:
    return MediaFolder(tmp_path / "media", secret=load_media_secret(tmp_path))


@pytest.fixture
def app(gate: Gate, store: MediaFolder) -> Application:
    arguments = {"gate": gate, "store": store}
    return Application([(r"/media/.*", MediaHandler, arguments)], log_function=lambda _handler: None)


def address(store: MediaFolder, kept: MediaFile) -> str:
    return store.sign(kept.id, time.time() + 60)


async def pieces(*chunks: bytes) -> AsyncIterator[bytes]:
    for chunk in chunks:
        yield chunk


async def content(store: MediaFolder, file_id: str) -> bytes:
    async with store.open_for_reading(file_id) as (_, file):
        return await file.read()


# Served


@pytest.mark.gen_test
@pytest.mark.parametrize("in_pieces", [False, True])
async def test_a_file_is_served_to_whoever_has_its_address(ask: Ask, store: MediaFolder, in_pieces: bool) -> None:
    given = pieces(DATA[:100], b"", DATA[100:]) if in_pieces else DATA
    kept = await store.put(given, "image/png", "cat.png")
    response = await ask(address(store, kept), headers={"Authorization": None})
    assert (response.code, response.body) == (200, DATA)
    headers = response.headers
    assert headers["Content-Type"] == "image/png"
    assert headers["Content-Length"] == "1024"
    assert headers["Content-Disposition"] == 'inline; filename="cat.png"'
    assert headers["Accept-Ranges"] == "bytes"
    assert headers["ETag"] == f'"{kept.id}"'
    assert re.fullmatch(r"\w{3}, \d\d \w{3} \d{4} [\d:]{8} GMT", headers["Last-Modified"])
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Content-Security-Policy"].startswith("sandbox; default-src 'none'")
    assert headers["Referrer-Policy"] == "no-referrer"
    private, age = headers["Cache-Control"].split(", max-age=")
    assert private == "private"
    assert 50 <= int(age) <= 60
    assert "Transfer-Encoding" not in headers


@pytest.mark.gen_test
async def test_head_tells_the_size_and_sends_nothing(ask: Ask, store: MediaFolder) -> None:
    path = address(store, await store.put(DATA, "video/mp4"))
    response = await ask(path, method="HEAD", headers={"Range": "bytes=0-1"})
    assert (response.code, response.body) == (200, b"")
    assert response.headers["Content-Length"] == "1024"


@pytest.mark.gen_test
async def test_a_large_and_an_empty_file_come_whole(ask: Ask, store: MediaFolder) -> None:
    for data in (os.urandom(3_000_001), b""):
        response = await ask(address(store, await store.put(data, "video/mp4")))
        assert (response.code, response.body) == (200, data)


@pytest.mark.gen_test
async def test_a_request_is_logged_without_its_signature(
    ask: Ask, store: MediaFolder, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    kept = await store.put(DATA, "image/png")
    path = address(store, kept)
    await ask(path)
    said = " ".join(f"{record.getMessage()} {record.__dict__}" for record in caplog.records)
    assert kept.id in said
    assert path.partition("signature=")[2] not in said


WHOLE = (200, DATA, None)
RANGES = [
    ("bytes=0-0", (206, DATA[:1], "bytes 0-0/1024")),
    ("bytes=0-99", (206, DATA[:100], "bytes 0-99/1024")),
    ("bytes=100-", (206, DATA[100:], "bytes 100-1023/1024")),
    ("bytes=-24", (206, DATA[-24:], "bytes 1000-1023/1024")),
    ("bytes=-5000", (206, DATA, "bytes 0-1023/1024")),
    ("bytes=1000-5000", (206, DATA[1000:], "bytes 1000-1023/1024")),
    ("bytes=1023-" + "9" * 90, (206, DATA[-1:], "bytes 1023-1023/1024")),
    ("Bytes= 5-6 ", (206, DATA[5:7], "bytes 5-6/1024")),
    ("bytes=1024-", (416, None, "bytes */1024")),
    ("bytes=5000-6000", (416, None, "bytes */1024")),
    ("bytes=-0", (416, None, "bytes */1024")),
    ("bytes=0-1,4-5", WHOLE),
    ("bytes=5-1", WHOLE),
    ("bytes=-", WHOLE),
    ("bytes=a-b", WHOLE),
    ("bytes=1--2", WHOLE),
    ("bytes=٣-٤", WHOLE),
    ("items=0-1", WHOLE),
    ("", WHOLE),
]


@pytest.mark.gen_test
@pytest.mark.parametrize(("given", "expected"), RANGES)
async def test_a_range_gives_a_part(
    ask: Ask, store: MediaFolder, given: str, expected: tuple[int, bytes | None, str | None]
) -> None:
    path = address(store, await store.put(DATA, "video/mp4"))
    response = await ask(path, headers={"Range": given.encode().decode("latin-1")})
    status, body, header = expected
    assert (response.code, response.headers.get("Content-Range")) == (status, header)
    if body is None:
        assert error_of(response)["code"] == "range_not_satisfiable"
    else:
        assert response.body == body
        assert response.headers["Content-Length"] == str(len(body))


def test_an_empty_file_has_no_range() -> None:
    for given in ("bytes=0-", "bytes=-1", "bytes=0-0"):
        with pytest.raises(RangeNotSatisfiable):
            parse_range(given, 0)
    assert parse_range("", 0) is None


@pytest.mark.gen_test
async def test_a_part_is_given_only_of_the_version_that_is_asked_for(ask: Ask, store: MediaFolder) -> None:
    kept = await store.put(DATA, "video/mp4")
    path = address(store, kept)
    whole = await ask(path)
    tag, modified = whole.headers["ETag"], whole.headers["Last-Modified"]
    for condition, status in ((tag, 206), (modified, 206), ('"other"', 200), (f"W/{tag}", 200), ("Mon, 1 Jan", 200)):
        response = await ask(path, headers={"Range": "bytes=0-1", "If-Range": condition})
        assert response.code == status, condition


@pytest.mark.gen_test
@pytest.mark.parametrize("method", ["GET", "HEAD"])
async def test_what_a_client_has_is_not_sent_again(ask: Ask, store: MediaFolder, method: str) -> None:
    kept = await store.put(DATA, "video/mp4")
    path, tag = address(store, kept), f'"{kept.id}"'
    for given in (tag, f"W/{tag}", f'"a", {tag}', "*"):
        response = await ask(path, method=method, headers={"If-None-Match": given, "Range": "bytes=5000-"})
        assert (response.code, response.body, response.headers["ETag"]) == (304, b"", tag)
        assert response.headers["Cache-Control"].startswith("private, max-age=")
    assert (await ask(path, method=method, headers={"If-None-Match": '"other"'})).code == 200


@pytest.mark.parametrize(
    ("media_type", "name", "expected"),
    [
        ("image/png", "a.png", 'inline; filename="a.png"'),
        ("audio/wav", "my sound (1).wav", 'inline; filename="my sound (1).wav"'),
        ("application/pdf", "a.pdf", 'attachment; filename="a.pdf"'),
        ("text/html", "a.html", 'attachment; filename="a.html"'),
        ("image/svg+xml", "a.svg", 'attachment; filename="a.svg"'),
        ("image/png", "", 'inline; filename="ab.png"'),
        ("image/png", 'a"b;c\r\nX: 1', "inline; filename=\"a_b_c__X_ 1\"; filename*=UTF-8''a%22b%3Bc%0D%0AX%3A%201"),
        ("image/png", "猫.png", "inline; filename=\"_.png\"; filename*=UTF-8''%E7%8C%AB.png"),
        ("image/png", "a\ud800", "inline; filename=\"a_\"; filename*=UTF-8''a%3F"),
    ],
)
def test_a_name_is_safe_in_a_header(media_type: str, name: str, expected: str) -> None:
    kept = MediaFile(id="ab.png", size=1, media_type=media_type, name=name, created=0, expires=0)
    assert format_content_disposition(kept) == expected


@pytest.mark.gen_test
async def test_a_name_or_a_type_with_a_line_end_puts_nothing_in_the_answer(ask: Ask, store: MediaFolder) -> None:
    kept = await store.put(DATA, "text/html\r\nX-Injected: 1", "/etc/a\r\nX-Injected: 1\\" + "a" * 500)
    response = await ask(address(store, kept))
    assert "X-Injected" not in response.headers
    assert response.headers["Content-Type"] == "application/octet-stream"
    assert response.headers["Content-Disposition"].startswith('attachment; filename="_etc_a__X-Injected_ 1_aaa')


# Addresses


def same_404(response: HTTPResponse) -> bool:
    gone = files.file_not_found_error()
    return response.code == 404 and error_of(response) == gone.body()


@pytest.mark.gen_test
async def test_an_address_that_was_tampered_with_is_as_good_as_none(ask: Ask, store: MediaFolder) -> None:
    kept, second = await store.put(DATA, "image/png"), await store.put(DATA, "image/png")
    path = address(store, kept)
    plain, _, query = path.partition("?")
    expires, _, signature = query.partition("&signature=")
    flipped = [f"{signature[:n]}{'1' if signature[n] == '0' else '0'}{signature[n + 1 :]}" for n in (0, 31, 63)]
    wrong = [
        plain,
        f"{plain}?{expires}",
        f"{plain}?signature={signature}",
        f"{plain}?{expires}&signature=",
        f"{plain}?{expires}&signature=%C3%BC",
        f"{plain}?{expires}0&signature={signature}",
        f"{plain}?expires=9999999999&signature={signature}",
        f"{plain}?{expires}&signature={signature.upper()}",
        f"/media/{second.id}?{query}",
        MediaFolder(store.folder, secret=b"another").sign(kept.id, time.time() + 60),
        store.sign(kept.id, time.time() - 1),
        store.sign("0" * 32 + ".png", time.time() + 60),
        *(f"{plain}?{expires}&signature={other}" for other in flipped),
    ]
    for one in wrong:
        assert same_404(await ask(one)), one
    assert (await ask(path)).code == 200
    assert (await ask(f"{plain}/?{query}")).code == 200


@pytest.mark.gen_test
async def test_nothing_outside_the_folder_is_served_even_when_signed(
    ask: Ask, store: MediaFolder, tmp_path: Path
) -> None:
    kept = await store.put(DATA, "image/png")
    (tmp_path / "outside.txt").write_text("secret")
    (store.folder / "inside.txt").write_text("secret")
    asked = ["../outside.txt", "..%2foutside.txt", "inside.txt", "", ".", "..", "/etc/passwd", f"../media/{kept.id}"]
    asked += [f"{kept.id}.about", f"{kept.id}%00", f"{kept.id}\n", f"x/{kept.id}", kept.id.upper(), "a" * 5000]
    for file_id in asked:
        query = store.sign(file_id, time.time() + 60).rpartition("?")[2]
        assert same_404(await ask(f"/media/{file_id.strip()}?{query}")), file_id
        with pytest.raises(NotFound):
            await store.find_file(file_id)
        with pytest.raises(NotFound):
            await content(store, file_id)
        await store.delete(file_id)
    assert (tmp_path / "outside.txt").exists()
    assert await content(store, kept.id) == DATA


def test_the_secret_is_made_once_and_shared(tmp_path: Path) -> None:
    secret = load_media_secret(tmp_path)
    path = tmp_path / files.SECRET_FILE
    assert len(secret) == 32
    assert load_media_secret(tmp_path) == secret
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    path.write_bytes(b"cut off")  # by a process that died while it wrote
    fresh = load_media_secret(tmp_path)
    assert len(fresh) == 32
    assert load_media_secret(tmp_path) == fresh != secret


def test_a_secret_that_cannot_be_kept_lasts_as_long_as_the_process(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").touch()
    assert load_media_secret(tmp_path / "file") != load_media_secret(tmp_path / "file")
    assert "cannot use" in caplog.text


# Readers


@pytest.mark.gen_test
async def test_half_a_file_never_looks_whole(ask: Ask, store: MediaFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = await store.put(DATA * 100, "image/png")
    monkeypatch.setattr(media_folder, "CHUNK_BYTES", 1000)
    flush = MediaHandler.flush

    def cut(handler: MediaHandler, include_footers: bool = False) -> Any:
        os.truncate(store.folder / kept.id, 50_000)
        return flush(handler, include_footers)

    monkeypatch.setattr(MediaHandler, "flush", cut)
    with pytest.raises(HTTPStreamClosedError):
        await ask(address(store, kept))


async def begin(path: str, port: int) -> IOStream:
    """A client that has asked, and takes no more of the answer than it must."""
    stream = await TCPClient().connect("127.0.0.1", port, max_buffer_size=64 * 1024)
    await stream.write(f"GET {path} HTTP/1.1\r\nHost: h\r\n\r\n".encode())
    await stream.read_until(b"\r\n\r\n")
    return stream


@pytest.mark.gen_test
async def test_a_slow_reader_holds_up_the_disk_and_a_stalled_one_is_left(
    gate: Gate, store: MediaFolder, http_server: HTTPServer, http_port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = gate.snapshot.config
    server = replace(config.server, stalled_reader_seconds=0.2)
    monkeypatch.setattr(gate, "snapshot", replace(gate.snapshot, config=replace(config, server=server)))
    sent: asyncio.Queue[int] = asyncio.Queue()
    monkeypatch.setattr(MediaHandler, "on_finish", lambda handler: sent.put_nowait(handler.sent_bytes))
    kept = await store.put(bytes(60_000_000), "video/mp4")
    stream = await begin(address(store, kept), http_port)
    assert await sent.get() < 30_000_000  # what the two sockets hold, and no more
    with pytest.raises(StreamClosedError):
        while True:
            await stream.read_bytes(65536, partial=True)
    assert store._remove_file(kept.id)


@pytest.mark.gen_test
async def test_a_reader_who_leaves_lets_go_of_the_file(
    gate: Gate, store: MediaFolder, http_server: HTTPServer, http_port: int
) -> None:
    kept = await store.put(bytes(60_000_000), "video/mp4")
    stream = await begin(address(store, kept), http_port)
    assert not store._remove_file(kept.id)
    stream.close()
    await gate.requests.wait_until_idle()
    assert store._remove_file(kept.id)
