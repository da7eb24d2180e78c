"""Memory of the gateway during large uploads: many concurrent streamed forms to a running gateway.

Usage: .venv/bin/python bench/uploads.py --url http://127.0.0.1:8080 --key KEY [--pid PID] [--model M] [--count 50] [--mib 20].
Sends COUNT forms of one picture of MIB mebibytes to /v1/images/edits at the same time, and prints how many answers had
which status and how long all took. With --pid the resident memory of that process and its children is sampled ten times a
second: their sum before, its peak, and the growth for each upload. The pictures are never in this process's memory either:
a PNG header of 64 by 64 pixels, then chunks of random bytes that a reader of PNG skips, so what decodes them may refuse them.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import struct
import time
import zlib
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp

MIB = 1024 * 1024
BOUNDARY = "bench0upload0boundary"
SAMPLE_SECONDS = 0.1


def make_chunk(kind: bytes, data: bytes) -> bytes:
    """One chunk of a PNG."""
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


BEGINNING = b"\x89PNG\r\n\x1a\n" + make_chunk(b"IHDR", struct.pack(">IIBBBBB", 64, 64, 8, 6, 0, 0, 0))
FILLER = make_chunk(b"raNd", os.urandom(MIB - 12))
END = make_chunk(b"IDAT", zlib.compress(bytes(64 * (1 + 64 * 4)))) + make_chunk(b"IEND", b"")


def make_form_edges(model: str) -> tuple[bytes, bytes]:
    """Return the parts of the form before and after the image."""
    fields = {"model": model, "prompt": "a lighthouse at night"}
    before = "".join(
        f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'
        for name, value in fields.items()
    )
    before += f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="image"; filename="a.png"\r\n'
    return (before + "Content-Type: image/png\r\n\r\n").encode(), f"\r\n--{BOUNDARY}--\r\n".encode()


async def iterate_pieces(before: bytes, behind: bytes, mebibytes: int) -> AsyncIterator[bytes]:
    yield before + BEGINNING
    for _ in range(mebibytes):
        yield FILLER
    yield END + behind


async def upload(session: aiohttp.ClientSession, options: argparse.Namespace) -> str:
    """Return the status of the response, or the name of the error."""
    before, behind = make_form_edges(options.model)
    length = len(before) + len(BEGINNING) + options.mib * len(FILLER) + len(END) + len(behind)
    headers = {
        "Authorization": f"Bearer {options.key}",
        "Content-Type": f"multipart/form-data; boundary={BOUNDARY}",
        "Content-Length": str(length),
    }
    url = options.url.rstrip("/") + "/v1/images/edits"
    try:
        async with session.post(url, data=iterate_pieces(before, behind, options.mib), headers=headers) as response:
            while await response.content.read(MIB):
                pass
            return str(response.status)
    except (aiohttp.ClientError, OSError, TimeoutError) as error:
        return type(error).__name__


def read_resident_bytes(process: int) -> int:
    """Return the memory of a process and its descendants; 0 if it has ended."""
    try:
        pages = int(Path(f"/proc/{process}/statm").read_text(encoding="ascii").split()[1])
        tasks = list(Path(f"/proc/{process}/task").iterdir())
        children = [int(one) for task in tasks for one in (task / "children").read_text(encoding="ascii").split()]
    except (FileNotFoundError, ProcessLookupError):
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE") + sum(read_resident_bytes(child) for child in children)


async def watch(process: int, samples: list[int]) -> None:
    while True:
        samples.append(read_resident_bytes(process))
        await asyncio.sleep(SAMPLE_SECONDS)


async def main(options: argparse.Namespace) -> None:
    samples = [read_resident_bytes(options.pid)] if options.pid else []
    watcher = asyncio.create_task(watch(options.pid, samples)) if options.pid else None
    connector, timeout = aiohttp.TCPConnector(limit=0), aiohttp.ClientTimeout(total=600)
    begun = time.monotonic()
    async with aiohttp.ClientSession(connector=connector, timeout=timeout) as session:
        outcomes = await asyncio.gather(*(upload(session, options) for _ in range(options.count)))
    print(
        f"{options.count} uploads of {options.mib} MiB in {time.monotonic() - begun:.1f} s: {dict(Counter(outcomes))}"
    )
    if watcher is not None:
        watcher.cancel()
        before, peak = samples[0] / MIB, max(samples) / MIB
        print(f"RSS {before:.0f} MiB before, {peak:.0f} MiB at its peak: {(peak - before) / options.count:.2f} each")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Uploads many large pictures at once.")
    parser.add_argument("--url", required=True)
    parser.add_argument("--key", required=True)
    parser.add_argument("--pid", type=int, help="the gateway's process, whose memory is sampled")
    parser.add_argument("--model", default="gpt-image-1")
    parser.add_argument("--count", type=int, default=50)
    parser.add_argument("--mib", type=int, default=20)
    asyncio.run(main(parser.parse_args()))
