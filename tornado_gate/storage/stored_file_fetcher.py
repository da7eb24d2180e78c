"""A fetcher of addresses in requests. Files that the gateway itself has served are read directly from its stores.

Such an address is recognised by its signature, for any host, because callers reach the gateway by several. So an image
that the gateway made can be edited although the gateway's own address is private.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tornado_gate.codec.media_types import resolve_media_type
from tornado_gate.errors import InvalidField, NotFound
from tornado_gate.http.fetch import FetchedFile, Fetcher, RequestFetcher
from tornado_gate.http.fetch.fetcher import as_field_errors
from tornado_gate.storage.files import MediaStore

_LONGEST_URL = 2000


class StoredFileFetcher(Fetcher):
    """A Fetcher for the gateway's own addresses too. The signature is the permission, as for a download."""

    def __init__(self, *stores: MediaStore, **rest: Any) -> None:
        super().__init__(**rest)
        self._stores = stores

    async def read_own_for(
        self, request: RequestFetcher, url: str, kinds: Collection[str], param: str
    ) -> FetchedFile | None:
        """Return the file at an own address; None for any other address.

        Raises InvalidField: ``file_expired`` for an own address that is no longer valid, ``too_large``, ``wrong_media_type``;
        Unavailable if there is no memory for the file.
        """
        for store in self._stores:
            if store.address in url[:_LONGEST_URL] and (file_id := _find_signed_file(store, url, param)):
                return await self._read_stored(request, store, file_id, url, kinds, param)
        return None

    async def _read_stored(
        self, request: RequestFetcher, store: MediaStore, file_id: str, url: str, kinds: Collection[str], param: str
    ) -> FetchedFile:
        rules = self.rules
        with as_field_errors(param):
            try:
                async with store.open_for_reading(file_id) as (kept, file):
                    await request.reserve(request.find_most_bytes(kept.size, rules), rules.seconds)
                    data = await file.read()
            except NotFound:
                raise _expired_error(param) from None
            return FetchedFile(media_type=resolve_media_type(data, kept.media_type, kinds), data=data, url=url)


def _find_signed_file(store: MediaStore, url: str, param: str) -> str:
    """Return the id in an address that `store` has signed; "" for any other address. Raises InvalidField if it has
    expired.
    """
    if len(url) > _LONGEST_URL:
        return ""
    try:
        parts = urlsplit(url.strip())
    except ValueError:
        return ""
    if not parts.path.startswith(store.address):
        return ""
    file_id = parts.path.removeprefix(store.address)
    query = parse_qs(parts.query)
    expires, signature = query.get("expires", [""])[0], query.get("signature", [""])[0]
    if not store.has_signed(file_id, expires, signature):
        return ""
    if not store.verify_signature(file_id, expires, signature):
        raise _expired_error(param)
    return file_id


def _expired_error(param: str) -> InvalidField:
    message = (
        "This address of the gateway has expired, or its file was deleted. Send the file itself, or create it again."
    )
    return InvalidField(param, message, code="file_expired")
