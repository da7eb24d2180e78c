"""Forms: read as they arrive, whole or refused, with nothing left behind; and written so that others read the same."""

from __future__ import annotations

import asyncio
import email
import email.policy
import os
import sys
import threading
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.process import Child
from tornado_gate.codec import form_parser, multipart
from tornado_gate.codec.multipart import DiskFile, FormBody, FormReader, convert_fields_to_json
from tornado_gate.errors import GateError, InvalidField, RequestError, TooLarge, Unavailable

TYPE = "multipart/form-data; boundary=b0"
CALLER = b"Content-Disposition: form-data; name="

Told = tuple[list[tuple[str, str]], list[tuple[str, str, str, bytes]]]
"""Fields, and files as (field, filename, media type, content)."""


def part(head: bytes, content: bytes = b"", boundary: bytes = b"b0") -> bytes:
    return b"--" + boundary + b"\r\n" + head + b"\r\n\r\n" + content + b"\r\n"


def text(name: str, value: str | bytes) -> bytes:
    return part(CALLER + f'"{name}"'.encode(), value if isinstance(value, bytes) else value.encode())


def file(name: str, content: bytes, filename: str = "a.png", media_type: str = "image/png") -> bytes:
    return part(CALLER + f'"{name}"; filename="{filename}"\r\nContent-Type: {media_type}'.encode(), content)


END = b"--b0--\r\n"


async def read(folder: Path, chunks: Sequence[bytes], content_type: str = TYPE) -> FormReader:
    """A reader that has read all of a form. The caller closes it; of one that fails nothing is left."""
    reader = FormReader(content_type, folder)
    try:
        for chunk in chunks:
            await reader.feed(chunk)
        await reader.finish()
    except BaseException:
        reader.close()
        assert open_below(folder) == []
        raise
    return reader


def told(folder: Path, chunks: Sequence[bytes], content_type: str = TYPE) -> Told:
    async def main() -> Told:
        reader = await read(folder, chunks, content_type)
        files = [(file.field, file.filename, file.media_type, await file.read()) for file in reader.files]
        assert [file.size for file in reader.files] == [len(content) for *_, content in files]
        reader.close()
        return reader.fields, files

    return asyncio.run(main())


def catch_refusal(folder: Path, *chunks: bytes, content_type: str = TYPE) -> GateError:
    with pytest.raises(GateError) as caught:
        told(folder, chunks, content_type)
    return caught.value


def open_below(folder: Path) -> list[str]:
    """The files of this process that are open below a folder."""
    found = []
    for entry in Path("/proc/self/fd").iterdir():
        try:
            target = str(entry.readlink())
        except FileNotFoundError:
            continue
        if target.startswith(f"{folder}/"):
            found.append(target)
    return found


def cut(data: bytes, at: Sequence[int]) -> list[bytes]:
    places = [0, *sorted(at), len(data)]
    return [data[begin:end] for begin, end in pairwise(places)]


PICTURE = b"\x89PNG\r\n\x1a\n" + bytes(range(256)) + b"\r\n--b1\r\n--b\r\n--\r\n\r\r\n--b0x\r\n--b0-\r\n--b0\r\r\n"
FORM = text("prompt", "Größe ☃\r\nzwei") + file("image[]", PICTURE) + text("n", "1") + file("mask", b"", "m.png") + END
READ: Told = (
    [("prompt", "Größe ☃\r\nzwei"), ("n", "1")],
    [("image[]", "a.png", "image/png", PICTURE), ("mask", "m.png", "image/png", b"")],
)


def test_fields_and_files_are_read_in_their_order(tmp_path: Path) -> None:
    assert told(tmp_path, [FORM]) == READ


def test_it_does_not_matter_where_a_chunk_ends(tmp_path: Path) -> None:
    for at in range(len(FORM) + 1):
        assert told(tmp_path, cut(FORM, [at])) == READ, at


def test_a_form_may_come_byte_by_byte(tmp_path: Path) -> None:
    assert told(tmp_path, [bytes([byte]) for byte in FORM]) == READ


LOOKALIKES = st.lists(
    st.sampled_from(
        [b"\r", b"\n", b"\r\n", b"--", b"-", b"b0", b"\r\n--b", b"\r\n--b0", b"--b0--", b"x", b" ", b"\0\xff"]
    ),
    max_size=12,
).map(b"".join)


def holds_boundary(content: bytes) -> bool:
    """Is there a line in it that any reader must take for a boundary?"""
    lines = (b"\r\n" + content + b"\r\n").replace(b"\r", b"\n").split(b"\n")
    return any(line.startswith(b"--b0") for line in lines)


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(contents=st.lists(LOOKALIKES, max_size=4), data=st.data())
def test_any_content_cut_anywhere_reads_the_same(tmp_path: Path, contents: list[bytes], data: st.DataObject) -> None:
    """Also content that holds boundaries: it may be a bad form, but not a different one at each try."""
    form = b"".join(file(f"f{number}", content) for number, content in enumerate(contents)) + END
    places = data.draw(st.lists(st.integers(0, len(form)), max_size=6))

    def outcome(chunks: Sequence[bytes]) -> Any:
        try:
            return told(tmp_path, chunks)
        except RequestError as error:
            return type(error), error.message

    whole = outcome([form])
    assert outcome(cut(form, places)) == whole
    if not any(holds_boundary(content) for content in contents):
        assert [content for *_, content in whole[1]] == contents


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(body=st.binary(max_size=400), data=st.data())
def test_bytes_that_are_no_form_are_a_400_or_413(tmp_path: Path, body: bytes, data: st.DataObject) -> None:
    beginning = data.draw(st.sampled_from([b"", b"--b0", b"--b0\r\n", b"--b0\r\n" + CALLER, FORM[:90]]))
    try:
        told(tmp_path, [beginning + body])
    except RequestError as error:
        assert error.status in (400, 413)


def parsed_by_python(body: bytes, content_type: str) -> Told:
    """What Python's own reader of MIME makes of a form."""
    head = f"Content-Type: {content_type}\r\n\r\n".encode()
    message = email.message_from_bytes(head + body, policy=email.policy.HTTP)
    result: Told = ([], [])
    for one in message.iter_parts():  # type: ignore[attr-defined]
        name = one.get_param("name", header="content-disposition")
        content = one.get_payload(decode=True)
        if one.get_filename() is None:
            result[0].append((name, content.decode()))
        else:
            result[1].append((name, one.get_filename(), one.get_content_type(), content))
    return result


PLAIN_NAMES = st.text("abcdefghijkXYZ0189_.[]-", min_size=1, max_size=12)
CONTENTS = st.one_of(st.binary(max_size=300), LOOKALIKES).filter(lambda content: not holds_boundary(content))
VALUES = st.text(st.characters(exclude_categories=["Cs"]), max_size=60).filter(lambda v: not holds_boundary(v.encode()))


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    fields=st.lists(st.tuples(PLAIN_NAMES, VALUES), max_size=4),
    files=st.lists(st.tuples(PLAIN_NAMES, PLAIN_NAMES, CONTENTS), max_size=4),
)
def test_a_well_formed_form_reads_as_python_reads_it(
    tmp_path: Path, fields: list[tuple[str, str]], files: list[tuple[str, str, bytes]]
) -> None:
    form = b"".join(text(*field) for field in fields)
    form += b"".join(file(name, content, filename) for name, filename, content in files) + END
    read = told(tmp_path, [form])
    if fields or files:
        assert read == parsed_by_python(form, TYPE)
    assert read == (fields, [(name, filename, "image/png", content) for name, filename, content in files])


# What senders do


def test_a_form_without_parts_is_empty(tmp_path: Path) -> None:
    assert told(tmp_path, [END]) == ([], [])
    assert told(tmp_path, [b"\r\n" + END]) == ([], [])


@pytest.mark.parametrize("around", [b"\r\n", b"This is a form.\r\n", b"-\r\n--b\r\n", b"\n\n-x\r\n"])
def test_what_stands_before_and_behind_a_form_is_skipped(tmp_path: Path, around: bytes) -> None:
    whole = around + FORM + b"and an epilogue\r\n--b0\r\n"
    for at in range(len(around) + 8):
        assert told(tmp_path, cut(whole, [at])) == READ, at


def test_a_body_that_does_not_begin_as_a_form_is_refused_before_it_is_all_sent(tmp_path: Path) -> None:
    async def main() -> int:
        reader = FormReader(TYPE, tmp_path)
        for count in range(1000):
            try:
                await reader.feed(b"x" * 1024)
            except RequestError as error:
                assert error.code == "invalid_form"
                return count
        return 1000

    assert asyncio.run(main()) < 70


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{}",
        FORM[:-10],
        FORM.replace(b"--b0--", b"--b0"),
        FORM.replace(b"\r\n", b"\n"),
        b"--b0 and more\r\n" + FORM,
        b"--b1\r\n" + FORM[6:].replace(b"--b0", b"--b1"),
        part(b"Content-Type: text/plain", b"no disposition") + END,
        part(b"Content-Disposition: form-data", b"no name") + END,
        part(CALLER + b'""', b"an empty name") + END,
        part(b'Content-Disposition: attachment; name="x"', b"") + END,
        part(b"a header without a colon", b"") + END,
        part(b": no name", b"") + END,
        part(CALLER + b'"x"; filename="y"\r\nContent-Transfer-Encoding: base64', b"AAAA") + END,
    ],
)
def test_what_is_no_form_is_a_400_that_says_so(tmp_path: Path, body: bytes) -> None:
    error = catch_refusal(tmp_path, body)
    assert (error.status, error.code) == (400, "invalid_form")


@pytest.mark.parametrize(
    "content_type",
    [
        "multipart/form-data",
        "multipart/form-data; boundary=",
        "multipart/form-data; boundary=" + "b" * 71,
        "multipart/form-data; boundary=" + "b" * 100_000,
        'multipart/form-data; boundary="b\t0"',
        "multipart/form-data; boundary=größe☃",
        "",
    ],
)
def test_a_boundary_that_is_none_is_refused(tmp_path: Path, content_type: str) -> None:
    error = catch_refusal(tmp_path, FORM, content_type=content_type)
    assert (error.status, error.code) == (400, "invalid_form")


@pytest.mark.parametrize("boundary", ["b'()+_,-./:=?0", "a b", "b" * 70, "----WebKitFormBoundary7MA4YWxkTrZu0gW"])
def test_a_boundary_may_be_quoted_and_hold_signs(tmp_path: Path, boundary: str) -> None:
    content_type = f'multipart/form-data; charset=utf-8; boundary="{boundary}"'
    sign = b"--" + boundary.encode()
    form = part(CALLER + b'"x"', b"--b0--\r\n" + sign[:-1] + b"!" + sign, boundary.encode()) + sign + b"--"
    assert told(tmp_path, [form], content_type) == (
        [("x", "--b0--\r\n" + sign[:-1].decode() + "!" + sign.decode())],
        [],
    )


@pytest.mark.parametrize(
    ("disposition", "filename"),
    [
        (b'"x"; filename="a\\"b.png"', 'a"b.png'),
        (b'"x"; filename="a%22b.png"', "a%22b.png"),
        (b'"x"; filename="a;b=c.png"', "a;b=c.png"),
        ('"x"; filename="Größe ☃.png"'.encode(), "Größe ☃.png"),
        (b'"x"; filename="\xff.png"', "\N{REPLACEMENT CHARACTER}.png"),
        (b'"x"; filename=plain.png', "plain.png"),
        (b'"x"; filename=""', ""),
        (b"\"x\"; filename*=UTF-8''Gr%C3%B6%C3%9Fe.png", "Größe.png"),
        (b"\"x\"; filename*=utf-8'de'Gr%C3%B6%C3%9Fe.png", "Größe.png"),
        (b"\"x\"; filename*=ISO-8859-1''Gr%F6%DFe.png", "Größe.png"),
        (b'"x"; filename="plain.png"; filename*=UTF-8\'\'other.png', "plain.png"),
        (b"\"x\"; FileName*=UTF-8''%ff.png", "\N{REPLACEMENT CHARACTER}.png"),
        (b'"x"; filename="' + b"n" * 1000 + b'"', "n" * 255),
        (b'"x"; filename="C:\\dir\\a.png"', "a.png"),
    ],
)
def test_names_of_files_come_in_many_ways(tmp_path: Path, disposition: bytes, filename: str) -> None:
    _, files = told(tmp_path, [part(CALLER + disposition, b"content") + END])
    assert files == [("x", filename, "", b"content")]


def test_a_name_that_looks_like_a_parameter_is_a_name(tmp_path: Path) -> None:
    fields, files = told(tmp_path, [part(CALLER + b"\"a; filename*=UTF-8''evil.png\"", b"1") + END])
    assert (fields, files) == ([("a; filename*=UTF-8''evil.png", "1")], [])


def test_headers_are_read_whatever_their_case_and_the_media_type_without_parameters(tmp_path: Path) -> None:
    head = (
        b'CONTENT-DISPOSITION:form-data;NAME=x;Filename="y"\r\ncontent-type:  Audio/WAV ; rate=1 \r\nX-Other:\r\nY: z'
    )
    assert told(tmp_path, [part(head, b"1") + END]) == ([], [("x", "y", "audio/wav", b"1")])


def test_a_field_that_is_not_utf_8_is_refused_by_its_name(tmp_path: Path) -> None:
    error = catch_refusal(tmp_path, text("prompt", b"\xff\xfe") + END)
    assert isinstance(error, InvalidField)
    assert error.param == "prompt"


# Limits


def test_a_form_may_have_no_more_parts_than_allowed(tmp_path: Path) -> None:
    fields, _ = told(tmp_path, [text("x", "1") * form_parser.MAX_PARTS + END])
    assert len(fields) == form_parser.MAX_PARTS
    assert isinstance(catch_refusal(tmp_path, text("x", "1") * 100_000 + END), TooLarge)


@pytest.mark.parametrize("chunk", [7, 1 << 20])
@pytest.mark.parametrize(
    "head",
    [
        CALLER + b'"' + b"x" * 10_000 + b'"',
        CALLER + b'"x"\r\n' + b"y" * 10_000 + b": 1",
        CALLER + b'"x"\r\n' + b"\r\n".join([b"Y: 1"] * 5000),
        CALLER + b'"x"\r\nY: ' + b"y" * 100_000,
    ],
)
def test_headers_without_end_are_too_large_however_they_come(tmp_path: Path, head: bytes, chunk: int) -> None:
    form = part(head, b"1") + END
    assert isinstance(catch_refusal(tmp_path, *cut(form, range(0, len(form), chunk))), TooLarge)


def test_a_part_may_have_more_headers_than_anybody_needs(tmp_path: Path) -> None:
    head = CALLER + b'"x"\r\n' + b"\r\n".join(b"X-%d: %d" % (number, number) for number in range(100))
    assert told(tmp_path, [part(head, b"1") + END]) == ([("x", "1")], [])


def test_text_fields_are_limited_together_and_files_are_not(tmp_path: Path) -> None:
    half = "x" * (multipart.MAX_FIELD_BYTES // 2)
    fields, files = told(tmp_path, [text("a", half) + text("b", half) + file("c", half.encode() * 3) + END])
    assert (len(fields), len(files)) == (2, 1)
    assert isinstance(catch_refusal(tmp_path, text("a", half) + text("b", half + "x") + END), TooLarge)


@pytest.mark.parametrize("size", [1000, 300_000])
def test_what_is_held_in_memory_stays_below_what_is_written_at_once_and_one_slice(
    tmp_path: Path, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also when there are many files, each of them small."""
    held: list[int] = []
    written: list[int] = []
    append = multipart._Spool.append

    def noted(spool: multipart._Spool, data: bytes | bytearray) -> None:
        written.append(len(data))
        append(spool, data)

    monkeypatch.setattr(multipart._Spool, "append", noted)
    form = file("x", b"y" * size) * 199 + END

    async def main() -> None:
        reader = FormReader(TYPE, tmp_path)
        for start in range(0, len(form), 64 * 1024):
            await reader.feed(form[start : start + 64 * 1024])
            held.append(len(reader._gathered))
        await reader.finish()
        assert sum(written) == 199 * size
        assert [await file.read() for file in reader.files] == [b"y" * size] * 199
        reader.close()

    asyncio.run(main())
    assert max(held) < multipart.WRITE_BYTES
    assert max(written) <= multipart.WRITE_BYTES + multipart.SLICE_BYTES
    assert len(written) == 1 if size == 1000 else len(written) > 40


def test_the_event_loop_gets_its_turn_between_slices(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Content made to look like boundaries takes the parser a thousand times longer than other content."""
    monkeypatch.setattr(multipart, "MAX_TURN_SECONDS", 0.0)
    hostile = text("x", b"\r\n--b0-" * 100_000)

    async def main() -> int:
        turns = 0

        async def count() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        counter = asyncio.create_task(count())
        await FormReader(TYPE, tmp_path).feed(hostile)
        counter.cancel()
        return turns

    assert asyncio.run(main()) >= len(hostile) // multipart.SLICE_BYTES


# The disk


def test_nothing_is_on_the_disk_by_a_name_and_nothing_is_open_after_close(tmp_path: Path) -> None:
    async def main() -> None:
        reader = await read(tmp_path / "new" / "uploads", [file("x", b"1" * 100) * 50 + END])
        assert list((tmp_path / "new" / "uploads").iterdir()) == []
        assert len(open_below(tmp_path)) == 1
        reader.close()
        reader.close()
        assert open_below(tmp_path) == []

    asyncio.run(main())
    assert (tmp_path / "new" / "uploads").stat().st_mode & 0o777 == 0o700


def test_a_form_without_files_does_not_touch_the_disk(tmp_path: Path) -> None:
    told(tmp_path / "new", [text("x", "1") + file("y", b"") + END])
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("bad", [b"--b0\r\n" + CALLER + b"\r\n\r\n", b"--b0\r\nno header\r\n\r\n", text("x", b"\xff")])
@pytest.mark.parametrize("size", [10, 3 * 1024 * 1024])
def test_a_form_that_fails_midway_leaves_nothing(tmp_path: Path, bad: bytes, size: int) -> None:
    error = catch_refusal(tmp_path, file("a", b"1" * size), file("b", b"1" * 10), bad + END)
    assert error.status == 400
    assert list(tmp_path.iterdir()) == []


def test_a_large_file_is_forgotten_in_a_thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(multipart, "MAX_BYTES_CLOSED_IN_LOOP", 5)
    before = set(threading.enumerate())

    async def main() -> None:
        (await read(tmp_path, [file("x", b"123456") + END])).close()

    asyncio.run(main())
    for thread in set(threading.enumerate()) - before:
        thread.join()
    assert open_below(tmp_path) == []


def test_a_folder_that_is_a_file_is_storage_unavailable(tmp_path: Path) -> None:
    (tmp_path / "uploads").write_text("")
    error = catch_refusal(tmp_path / "uploads", file("x", b"1") + END)
    assert isinstance(error, Unavailable)
    assert (error.status, error.code) == (503, "storage_unavailable")
    assert str(tmp_path) not in error.message


FULL = """
import asyncio, resource, sys
from pathlib import Path
from tests.codec.test_multipart import END, catch_refusal, file
resource.setrlimit(resource.RLIMIT_FSIZE, (1_500_000, 1_500_000))
error = catch_refusal(Path(sys.argv[1]), file("x", b"1" * 4_000_000) + END)
print(type(error).__name__, error.status, error.code)
"""
HALF = """
import asyncio, signal, sys
from pathlib import Path
from tests.codec.test_multipart import TYPE, file, open_below
from tornado_gate.codec.multipart import FormReader
folder = Path(sys.argv[1])
asyncio.run(FormReader.feed(reader := FormReader(TYPE, folder), file("x", b"1" * 4_000_000)))
print("open", len(open_below(folder)))
signal.pause()
"""


def test_a_disk_that_is_full_is_storage_unavailable(tmp_path: Path) -> None:
    child = Child([sys.executable, "-c", FULL, str(tmp_path)])
    assert child.process.wait(60) == 0, child.output
    assert "Unavailable 503 storage_unavailable" in child.stop()
    assert list(tmp_path.iterdir()) == []


def test_a_process_that_is_killed_while_it_reads_leaves_nothing(tmp_path: Path) -> None:
    child = Child([sys.executable, "-c", HALF, str(tmp_path)])
    child.wait_for_line("open 1")
    child.kill()
    assert list(tmp_path.iterdir()) == []


@contextmanager
def held_up(monkeypatch: pytest.MonkeyPatch, name: str) -> Iterator[tuple[threading.Event, threading.Event]]:
    """`os.NAME` waits inside its thread: what says that it has begun, and what lets it go on."""
    begun, go_on = threading.Event(), threading.Event()
    real = getattr(os, name)

    def late(*arguments: Any) -> Any:
        begun.set()
        assert go_on.wait(60)
        return real(*arguments)

    with monkeypatch.context() as patched:
        patched.setattr(os, name, late)
        yield begun, go_on
    go_on.set()


def test_a_file_that_is_being_read_is_closed_by_its_last_reader(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the descriptor might be another caller's file by the time it is read."""

    async def main() -> None:
        reader = await read(tmp_path, [file("x", b"123") + END])
        with held_up(monkeypatch, "pread") as (begun, go_on):
            reads = asyncio.create_task(reader.files[0].read())
            await asyncio.to_thread(begun.wait, 30)
            reader.close()
            assert len(open_below(tmp_path)) == 1
            go_on.set()
            assert await reads == b"123"
        assert open_below(tmp_path) == []

    asyncio.run(main())


def test_a_caller_who_leaves_during_a_write_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        reader = FormReader(TYPE, tmp_path)
        with held_up(monkeypatch, "pwrite") as (begun, go_on):
            feeds = asyncio.create_task(reader.feed(file("x", b"1" * multipart.WRITE_BYTES * 2)))
            await asyncio.to_thread(begun.wait, 30)
            feeds.cancel()
            with pytest.raises(asyncio.CancelledError):
                await feeds
            reader.close()
            assert len(open_below(tmp_path)) == 1
            go_on.set()
            await asyncio.get_running_loop().shutdown_default_executor()
        assert open_below(tmp_path) == []

    asyncio.run(main())


def test_a_form_that_was_closed_takes_no_more(tmp_path: Path) -> None:
    async def main() -> None:
        reader = FormReader(TYPE, tmp_path)
        reader.close()
        with pytest.raises(Unavailable):
            await reader.feed(file("x", b"1" * multipart.WRITE_BYTES * 2))
        assert open_below(tmp_path) == []

    asyncio.run(main())


# Reading what lies on the disk

BIG = bytes(range(256)) * 3000
"""Three pieces, the last of them short."""


@pytest.mark.parametrize(("size", "expected"), [(0, 0), (1, 1), (100, 100), (-1, len(BIG)), (10**9, len(BIG))])
def test_a_file_gives_its_beginning_or_all(tmp_path: Path, size: int, expected: int) -> None:
    async def main() -> bytes:
        reader = await read(tmp_path, [file("before", b"1" * 500) + file("x", BIG) + file("behind", b"2" * 500) + END])
        data = await reader.files[1].read(size)
        assert await reader.files[1].read() == BIG
        reader.close()
        return data

    assert asyncio.run(main()) == BIG[:expected]


def test_a_file_can_be_read_again_and_by_many_at_a_time(tmp_path: Path) -> None:
    async def pieces(upload: DiskFile) -> list[bytes]:
        return [chunk async for chunk in upload.chunks()]

    async def main() -> None:
        reader = await read(tmp_path, [file("x", BIG) + file("y", BIG[::-1]) + END])
        first, second = reader.files
        again = await pieces(first)
        assert [len(piece) for piece in again] == [
            multipart.READ_BYTES,
            multipart.READ_BYTES,
            len(BIG) - 2 * multipart.READ_BYTES,
        ]
        read_all = await asyncio.gather(*(pieces(upload) for upload in [first, second] * 8))
        reader.close()
        assert [b"".join(chunks) for chunks in read_all] == [BIG, BIG[::-1]] * 8

    asyncio.run(main())


def test_a_file_is_gone_when_its_form_is_closed(tmp_path: Path) -> None:
    async def main() -> None:
        reader = await read(tmp_path, [file("x", BIG) + END])
        chunks = reader.files[0].chunks()
        await anext(chunks)
        reader.close()
        for reads in (anext(chunks), reader.files[0].read(), reader.files[0].read(1)):
            with pytest.raises(Unavailable, match="Send the request again"):
                await reads

    asyncio.run(main())


# Writing a form


@dataclass(frozen=True)
class Given:
    """An upload that lies in memory."""

    field: str
    filename: str
    media_type: str
    content: bytes

    @property
    def size(self) -> int:
        return len(self.content)

    async def read(self, size: int = -1) -> bytes:
        return self.content if size < 0 else self.content[:size]

    async def chunks(self) -> AsyncIterator[bytes]:
        for start in range(0, len(self.content), 100):
            yield self.content[start : start + 100]


def written(body: FormBody) -> bytes:
    async def main() -> bytes:
        return b"".join([chunk async for chunk in body.chunks()])

    data = asyncio.run(main())
    assert len(data) == body.length
    assert asyncio.run(main()) == data, "it can be begun again"
    return data


NAMES = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20)
UPLOADS = st.builds(Given, NAMES, NAMES, st.sampled_from(["image/png", "audio/wav", ""]), st.binary(max_size=300))


def safe(name: str) -> str:
    return multipart._UNSAFE.sub("_", name)


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    fields=st.dictionaries(NAMES, st.one_of(st.text(st.characters(exclude_categories=["Cs"])), st.lists(VALUES))),
    files=st.lists(UPLOADS, max_size=3),
)
def test_what_is_written_is_read_back(tmp_path: Path, fields: dict[str, Any], files: list[Given]) -> None:
    body = FormBody(fields, files)
    expected = [
        (safe(name) + "[]" * isinstance(value, list), one)
        for name, value in fields.items()
        for one in (value if isinstance(value, list) else [value])
    ]
    read_fields, read_files = told(tmp_path, [written(body)], body.content_type)
    assert read_fields == expected
    assert read_files == [
        (safe(file.field), safe(file.filename), file.media_type or "application/octet-stream", file.content)
        for file in files
    ]


@settings(max_examples=100, deadline=None)
@given(
    fields=st.dictionaries(PLAIN_NAMES, st.text(st.characters(exclude_categories=["Cs"]))),
    files=st.lists(
        st.builds(Given, PLAIN_NAMES, PLAIN_NAMES, st.just("image/png"), st.binary(max_size=300)), max_size=3
    ),
)
def test_what_is_written_python_reads_too(fields: dict[str, str], files: list[Given]) -> None:
    body = FormBody(fields, files)
    if fields or files:
        assert parsed_by_python(written(body), body.content_type) == (
            list(fields.items()),
            [(file.field, file.filename, file.media_type, file.content) for file in files],
        )


EVIL = 'x"\r\nX-Evil: 1\r\n\r\n--"; filename="y\\\x00\x7f'


def test_names_cannot_bring_headers_or_parts_of_their_own(tmp_path: Path) -> None:
    body = FormBody({EVIL: "1", "array" + EVIL: ["2"]}, [Given(EVIL, EVIL, "image/png\r\nX-Evil: 1", b"3")])
    data = written(body)
    assert b"\nX-Evil" not in data
    fields, files = told(tmp_path, [data], body.content_type)
    assert fields == [(safe(EVIL), "1"), ("array" + safe(EVIL) + "[]", "2")]
    assert files == [(safe(EVIL), safe(EVIL), "image/pngx-evil: 1", b"3")]
    assert not set(safe(EVIL)) & set('"\\\r\n\x00')


def test_values_of_json_are_written_as_words(tmp_path: Path) -> None:
    fields = {
        "n": 2,
        "speed": 1.5,
        "stream": True,
        "none": None,
        "words": ["a", 1, False],
        "empty": [],
        "object": {"a": 1},
    }
    body = FormBody(fields, [])
    read_fields, _ = told(tmp_path, [written(body)], body.content_type)
    assert read_fields == [
        ("n", "2"),
        ("speed", "1.5"),
        ("stream", "true"),
        ("words[]", "a"),
        ("words[]", "1"),
        ("words[]", "false"),
        ("object", '{"a":1}'),
    ]


def test_a_file_goes_from_one_form_to_the_next_without_being_held(tmp_path: Path) -> None:
    async def main() -> None:
        reader = await read(tmp_path, [file("image[]", BIG) + END])
        body = FormBody({"model": "m"}, reader.files)
        chunks = [chunk async for chunk in body.chunks()]
        assert max(len(chunk) for chunk in chunks) == multipart.READ_BYTES
        assert sum(len(chunk) for chunk in chunks) == body.length
        reader.close()

    asyncio.run(main())


# Fields as a body


@pytest.mark.parametrize(
    ("fields", "body"),
    [
        ([], {}),
        ([("a", "1"), ("b", "2")], {"a": "1", "b": "2"}),
        ([("a", "")], {"a": ""}),
        ([("a[]", "1")], {"a": ["1"]}),
        ([("a[]", "1"), ("a[]", "2")], {"a": ["1", "2"]}),
        ([("a", "1"), ("a", "2"), ("a", "3")], {"a": ["1", "2", "3"]}),
        ([("a", "1"), ("a[]", "2"), ("a", "3")], {"a": ["1", "2", "3"]}),
        ([("a[]", "1"), ("a", "2")], {"a": ["1", "2"]}),
        ([("a", "1"), ("b", "x"), ("a", "2")], {"a": ["1", "2"], "b": "x"}),
        ([("a[b]", "1"), ("a[][]", "2"), ("[]", "3")], {"a[b]": "1", "a[]": ["2"], "[]": "3"}),
    ],
)
def test_names_that_repeat_or_say_so_are_arrays(fields: list[tuple[str, str]], body: dict[str, Any]) -> None:
    assert convert_fields_to_json(fields) == body
    assert list(convert_fields_to_json(fields)) == list(body)
