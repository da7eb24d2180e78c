"""The stores of files that conf names: folders below data_dir, or a bucket that several nodes share."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from tornado_gate.config.model import BucketConfig, Config
from tornado_gate.storage.files import MEDIA_PATH, VIDEO_PATH, MediaStore, load_media_secret
from tornado_gate.storage.media_folder import MediaFolder


class MediaStores(NamedTuple):
    """The stores of a process: `media` for images and audio, `videos` for the videos of finished tasks."""

    media: MediaStore
    videos: MediaStore


class BucketStart(NamedTuple):
    """What the start of the gateway knows of the bucket: the secret that signs addresses, and whether it does not respond."""

    secret: bytes
    is_away: bool = False


class BucketReports(NamedTuple):
    """Functions for metrics: `failed` is called with each failed request, `pending` with a folder and its bytes."""

    failed: Callable[[], None]
    pending: Callable[[str, int], None]


def open_media_stores(
    config: Config, start: BucketStart | None = None, reports: BucketReports | None = None
) -> MediaStores:
    """Open the stores of a process. `start` is for a bucket; folders have the secret in the data directory.

    Raises ConfigError if the library for buckets is not installed. Call it in the process that uses the stores.
    """
    data_dir, bucket = config.server.data_dir, config.media.bucket
    secret = start.secret if start else load_media_secret(data_dir)
    if bucket is not None:
        return _open_bucket(config, bucket, start or BucketStart(secret), reports)
    return MediaStores(
        MediaFolder(data_dir / "media", secret=secret, max_bytes=config.media.max_bytes, seconds=config.media.seconds),
        MediaFolder(
            data_dir / "videos",
            secret=secret,
            max_bytes=config.videos.max_bytes,
            seconds=config.videos.keep_seconds,
            address=VIDEO_PATH,
            evicts=False,
        ),
    )


def _open_bucket(
    config: Config, bucket: BucketConfig, start: BucketStart, reports: BucketReports | None
) -> MediaStores:
    from tornado_gate.storage.bucket import Bucket
    from tornado_gate.storage.object_store import ObjectStore

    secret = start.secret
    opened = Bucket(bucket, reports.failed if reports else lambda: None, is_away=start.is_away)

    def open_store(name: str, address: str, max_bytes: int, seconds: float, evicts: bool) -> MediaStore:
        folder = config.server.data_dir / name
        spool = MediaFolder(folder, secret=secret, max_bytes=bucket.spool_bytes, seconds=seconds, evicts=False)
        return ObjectStore(
            opened,
            spool,
            redirects=bucket.redirect,
            on_pending=(lambda size: reports.pending(name, size)) if reports else lambda _: None,
            secret=secret,
            max_bytes=max_bytes,
            seconds=seconds,
            address=address,
            evicts=evicts,
        )

    return MediaStores(
        open_store("media", MEDIA_PATH, config.media.max_bytes, config.media.seconds, True),
        open_store("videos", VIDEO_PATH, config.videos.max_bytes, config.videos.keep_seconds, False),
    )
