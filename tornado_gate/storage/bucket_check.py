"""The check of a bucket at the start of the gateway, and the secret that all nodes use.

The secret signs the addresses of files and hides accounts in their ids. An address that one node has signed is valid at
the others only if they have the same secret. Without `media.secret` in conf it is the object SECRET_KEY of the bucket.

A node that knows this secret starts even while the bucket cannot be reached: it has used this bucket before, which MARK_FILE
records, or conf has the secret. Another node does not start, because the address may be wrong.

The check runs in a separate process (this module as a program), because the library's threads do not survive the forks of
the gateway. It reads the configuration from its input and writes the result to its output, both as JSON.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import os
import secrets
import subprocess
import sys
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from tornado_gate.config.faults import Fault, FileFaults, KeyPath
from tornado_gate.config.model import BucketConfig, Config, Secret
from tornado_gate.errors import ConfigError
from tornado_gate.storage.files import SECRET_BYTES, load_media_secret, save_media_secret
from tornado_gate.storage.media_stores import BucketStart
from tornado_gate.storage.private import open_private

log = logging.getLogger(__name__)

CHECK_SECONDS = 60.0
SECRET_KEY = "signing-secret"
MARK_FILE = "media-secret.bucket"
"""A file of the data directory: a digest of the bucket and of its secret, with which this node has started."""
PROBE_FOLDER = "probe"
RIGHTS = {
    "s3": {"write": "s3:PutObject", "read": "s3:GetObject", "list": "s3:ListBucket", "delete": "s3:DeleteObject"},
    "gs": {
        "write": "storage.objects.create",
        "read": "storage.objects.get",
        "list": "storage.objects.list",
        "delete": "storage.objects.delete",
    },
    "az": {"write": "blobs/write", "read": "blobs/read", "list": "blobs/read (list)", "delete": "blobs/delete"},
}
"""The names of the rights that the gateway needs, by the scheme of the address."""
REFUSED_KEYS = frozenset(
    {"InvalidAccessKeyId", "SignatureDoesNotMatch", "ExpiredToken", "InvalidToken", "AuthenticationFailed"}
)
"""Error codes of object stores for wrong credentials, which are no missing right."""

SIGNS_OF_OUTAGE = ("error sending request", "status code: 50")
"""Parts of the library's errors for a server that cannot be reached, or fails."""

METADATA_ADDRESSES = ("169.254.169.254", "169.254.170.2", "computeMetadata")
"""Parts of the addresses at which the library requests the credentials of a cloud's instance if it has no others."""


def prepare_bucket(config: Config) -> BucketStart:
    """Check the bucket of conf, and return the secret of its files, and whether the bucket cannot be reached now.

    Blocks for at most CHECK_SECONDS. Raises FileFaults if the bucket cannot be used.
    """
    bucket = config.media.bucket
    assert bucket is not None
    result = _run_check(bucket, str(bucket.secret), load_media_secret(config.server.data_dir))
    if "fault" not in result:
        secret = bytes.fromhex(result["secret"])
        if not bucket.secret:
            save_media_secret(config.server.data_dir, secret)
            _write_mark(config.server.data_dir, _make_mark(bucket, secret))
        return BucketStart(secret)
    fault = FileFaults([_read_fault(result)], config.path, config.lines)
    known = _find_known_secret(config, bucket) if result.get("away") else b""
    if not known:
        raise fault
    log.error("%s. The gateway starts without the bucket, and uses it as soon as it responds.", fault.report()[0])
    return BucketStart(known, is_away=True)


def find_bucket_fault(bucket: BucketConfig) -> Fault | None:
    """Write, read, list and delete a small object. Return what is wrong; None if the bucket can be used. Makes no secret.

    Blocks for at most CHECK_SECONDS.
    """
    result = _run_check(bucket, str(bucket.secret) or "none is made", b"")
    return _read_fault(result) if "fault" in result else None


def _read_fault(result: Mapping[str, Any]) -> Fault:
    return ("media", *result["key"]), str(result["fault"])


def _find_known_secret(config: Config, bucket: BucketConfig) -> bytes:
    """Return the secret of a bucket that cannot be reached; b"" if this node has never used it, and conf has no secret."""
    if bucket.secret:
        return bucket.secret.encode()
    secret = load_media_secret(config.server.data_dir)
    try:
        mark = (config.server.data_dir / MARK_FILE).read_text("ascii", "replace")
    except OSError:
        return b""
    return secret if mark == _make_mark(bucket, secret) else b""


def _make_mark(bucket: BucketConfig, secret: bytes) -> str:
    return hashlib.sha256(f"{bucket.store}\n{bucket.endpoint}\n{secret.hex()}".encode()).hexdigest()


def _write_mark(data_dir: Path, mark: str) -> None:
    """Record that this node has used a bucket. A failure is logged: the next start then needs the bucket."""
    try:
        with os.fdopen(open_private(data_dir / MARK_FILE, os.O_CREAT | os.O_RDWR | os.O_TRUNC), "w") as file:
            file.write(mark)
    except OSError as error:
        log.error("cannot write %s: %s. Check server.data_dir.", data_dir / MARK_FILE, error)


def _run_check(bucket: BucketConfig, secret: str, own_secret: bytes) -> dict[str, Any]:
    question = {
        "store": bucket.store,
        "endpoint": bucket.endpoint,
        "options": {name: str(value) for name, value in bucket.options.items()},
        "secret": secret,
        "own_secret": own_secret.hex(),
    }
    try:
        finished = subprocess.run(
            [sys.executable, "-P", "-m", __name__],
            input=json.dumps(question),
            capture_output=True,
            text=True,
            timeout=CHECK_SECONDS,
            check=True,
        )
        result: dict[str, Any] = json.loads(finished.stdout)
    except subprocess.TimeoutExpired:
        return {"key": ["store"], "fault": f"could not be checked: no result within {CHECK_SECONDS:g} s", "away": True}
    except (subprocess.CalledProcessError, ValueError, OSError) as error:
        return {"key": ["store"], "fault": f"could not be checked: {type(error).__name__}. Start the gateway again."}
    return result


async def check_bucket(config: BucketConfig, own_secret: bytes) -> bytes:
    """Write, read, list and delete a small object. Return the secret of the bucket, which is `own_secret` if it is new.

    Raises ConfigError with keys below ``media``.
    """
    from tornado_gate.storage import bucket as library

    try:
        client = library.open_client(config)
    except (library.BaseError, ValueError) as error:
        raise ConfigError([_find_option_fault(config, library.describe_error(error))]) from None
    probe = f"{PROBE_FOLDER}/{secrets.token_hex(8)}"
    steps = library.RawSteps(client)
    for right, step in (
        ("write", partial(steps.write, probe)),
        ("read", partial(steps.read, probe)),
        ("list", partial(steps.list, PROBE_FOLDER)),
        ("delete", partial(steps.delete, probe)),
    ):
        try:
            await step()
        except (library.BaseError, OSError) as error:
            raise _make_fault(config, right, error) from None
    if config.secret:
        return config.secret.encode()
    try:
        secret = await steps.share_secret(SECRET_KEY, own_secret)
    except (library.BaseError, OSError) as error:
        raise _make_fault(config, "write", error) from None
    if len(secret) < SECRET_BYTES:
        raise ConfigError(
            [(("store",), f"the object {SECRET_KEY} of the bucket is damaged; delete it, or set media.secret")]
        )
    return secret


def _find_option_fault(config: BucketConfig, cause: str) -> tuple[KeyPath, str]:
    unknown = next((name for name in config.options if f"'{name}'" in cause), None)
    if unknown is not None:
        return ("options", unknown), f"is no option of {config.store[:2]}:// buckets; see docs/scaling.md"
    return ("options",) if config.options else ("store",), f"cannot be used: {cause}"


class BucketAway(ConfigError):
    """An error: the bucket does not respond, or its server fails. Conf may be right."""


def _make_fault(config: BucketConfig, right: str, error: Exception) -> ConfigError:
    is_away = isinstance(error, TimeoutError) or any(words in str(error) for words in SIGNS_OF_OUTAGE)
    return (BucketAway if is_away else ConfigError)([_explain(config, right, error)])


def _explain(config: BucketConfig, right: str, error: Exception) -> tuple[KeyPath, str]:
    """Return the key of conf and the message for a failed step."""
    from tornado_gate.storage import bucket as library

    code, cause = library.get_code(error), library.describe_error(error)
    where: KeyPath = ("endpoint",) if config.endpoint else ("store",)
    if any(address in str(error) for address in METADATA_ADDRESSES):
        return ("store",), f"has no credentials: set them in media.options or in the environment ({cause})"
    if isinstance(error, FileNotFoundError):
        return ("store",), f"the bucket does not exist, or the endpoint is not an object store: {cause}"
    if code in REFUSED_KEYS or isinstance(error, library.UnauthenticatedError):
        return ("options",) if config.options else ("store",), f"the object store refuses the credentials: {cause}"
    if isinstance(error, library.PermissionDeniedError) or code == "AccessDenied" or "403 Forbidden" in cause:
        name = RIGHTS[config.store[:2]][right]
        return ("store",), f"the credentials lack the right to {right} objects: {name} ({code or 'status 403'})"
    if isinstance(error, TimeoutError) or "error sending request" in cause:
        return where, f"the object store cannot be reached: {cause}"
    return where, f"the object store failed to {right} an object: {cause}"


def main() -> None:
    """Answer the question on the standard input."""
    question = json.load(sys.stdin)
    own_secret = bytes.fromhex(question.pop("own_secret"))
    question["options"] = {name: Secret(value) for name, value in question["options"].items()}
    config = BucketConfig(**{**question, "secret": Secret(question["secret"])})
    try:
        secret = asyncio.run(check_bucket(config, own_secret))
    except ConfigError as error:
        key, message = error.faults[0]
        fault = {"key": [part for part in key if part != "media"], "fault": message}
        json.dump({**fault, "away": isinstance(error, BucketAway)}, sys.stdout)
    else:
        json.dump({"secret": secret.hex()}, sys.stdout)
    sys.stdout.flush()
    os._exit(0)  # the library's threads may abort an interpreter that is ending


if __name__ == "__main__":
    main()
