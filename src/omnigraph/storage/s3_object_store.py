"""Control objects on S3, through the same object-store library that Lance uses."""

import io
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, BinaryIO, cast

import obstore
from obstore.exceptions import (
    AlreadyExistsError,
    BaseError,
    PermissionDeniedError,
    PreconditionError,
    UnauthenticatedError,
)
from obstore.store import S3Store

from omnigraph.storage.layout import RESERVE
from omnigraph.storage.object_store import (
    ObjectChangedError,
    ObjectExistsError,
    ObjectInfo,
    ObjectKeyError,
    ObjectMissingError,
    StoreDeniedError,
    StoredObject,
    StoreUnavailableError,
)

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer
    from obstore import WritableFile
    from obstore.store import ClientConfig, S3Config

_CLIENT_OPTIONS = frozenset({"allow_http", "timeout", "connect_timeout"})
"""The options that are the HTTP client's, not the bucket's."""
_MAX_RETRIES, _RETRY_SECONDS = "client_max_retries", "client_retry_timeout"
"""Lance's names for how often, and for how many seconds, a request is retried; we keep to the same bounds."""
_LANCE_OPTIONS = frozenset({_MAX_RETRIES, _RETRY_SECONDS, "download_retry_count"})
"""The options that only Lance understands."""
PART_BYTES = 8 * 1024 * 1024
"""How much of a large object is read or written at once."""
_WRITTEN_PART_BYTES = 32 * 1024 * 1024
"""A store takes 10,000 parts: with such ones, an output whose size nobody knows beforehand may have 300 GB."""
_MAX_PARTS = 9_000
_MAX_CONCURRENT_PARTS = 2
_INVALID_KEY_MESSAGE = re.compile(
    r'object with invalid path: (?:Error parsing )?Path "(?P<key>.*)"(?: contained|: Enc)', re.DOTALL
)
"""How the library tells of a key that it does not take; it then tells nothing of all the others."""


@contextmanager
def _translate_errors(action: str, key: str) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError:
        raise ObjectMissingError(key) from None
    except AlreadyExistsError:
        raise ObjectExistsError(key) from None
    except PreconditionError:
        raise ObjectChangedError(key) from None
    except (PermissionDeniedError, UnauthenticatedError) as error:
        raise StoreDeniedError(f"{action} `{key}`", _extract_reason(error)) from error
    except (BaseError, OSError) as error:
        # a listing that is refused comes as a general error
        is_denied = any(status in str(error) for status in ("401 Unauthorized", "403 Forbidden"))
        failure = StoreDeniedError if is_denied else StoreUnavailableError
        raise failure(f"{action} `{key}`", _extract_reason(error)) from error


@contextmanager
def _translate_upload_errors(key: str) -> Iterator[None]:
    """As `_translate_errors`, of a new object: what is missing then is the bucket."""
    try:
        with _translate_errors("write", key):
            yield
    except ObjectMissingError as error:
        raise StoreUnavailableError(f"write `{key}`", "there is no such bucket") from error


@contextmanager
def _translate_key_errors() -> Iterator[None]:
    """ObjectKeyError for a listing that fails because of one key."""
    try:
        yield
    except BaseError as error:
        found = _INVALID_KEY_MESSAGE.search(str(error))
        if found is None:
            raise
        raise ObjectKeyError(found["key"]) from error


def _extract_reason(error: Exception) -> str:
    return str(error).split("\n", 1)[0]


@dataclass(frozen=True, slots=True)
class ListedObject:
    """An object as a listing tells of it; `etag` is that of its content then."""

    key: str
    size: int
    etag: str


class S3ObjectStore:
    """An ObjectStore on a bucket that honours `If-None-Match` and `If-Match`."""

    def __init__(self, bucket: str, prefix: str, options: Mapping[str, str], *, max_retries: int = 5) -> None:
        client = {name: value for name, value in options.items() if name in _CLIENT_OPTIONS}
        config = {name: value for name, value in options.items() if name not in _CLIENT_OPTIONS | _LANCE_OPTIONS}
        self._store = S3Store(
            bucket,
            prefix=prefix,
            config=cast("S3Config", config),
            client_options=cast("ClientConfig", client),
            retry_config={
                "max_retries": int(options.get(_MAX_RETRIES, max_retries)),
                "retry_timeout": timedelta(seconds=float(options.get(_RETRY_SECONDS, 60))),
            },
        )

    def get(self, key: str) -> StoredObject:
        """See ObjectStore."""
        with _translate_errors("read", key):
            result = obstore.get(self._store, key)
            meta, data = result.meta, bytes(result.bytes())
        return StoredObject(data, str(meta["e_tag"]), ObjectInfo(key, len(data), meta["last_modified"]))

    def get_start(self, key: str, size: int) -> bytes:
        """See ObjectStore."""
        with _translate_errors("read", key):
            return bytes(obstore.get(self._store, key, options={"range": (0, size)}).bytes())

    def get_up_to(self, key: str, limit: int) -> bytes | None:
        """The object's bytes, or None when there are more than so many: then none of them is read."""
        with _translate_errors("read", key):
            result = obstore.get(self._store, key)
            return None if result.meta["size"] > limit else bytes(result.bytes())

    def iter_parts(self, key: str) -> Iterator[bytes]:
        """The object's bytes, a part at a time."""
        with _translate_errors("read", key):
            for part in obstore.get(self._store, key).stream(min_chunk_size=PART_BYTES):
                yield bytes(part)

    def find(self, key: str) -> ListedObject | None:
        """The object of that key."""
        try:
            with _translate_errors("look up", key):
                meta = obstore.head(self._store, key)
        except ObjectMissingError:
            return None
        return ListedObject(key, meta["size"], str(meta["e_tag"]))

    def iter_below(self, prefix: str) -> Iterator[ListedObject]:
        """All objects below a prefix, by key; a slash at a key's end is not shown.

        Raises:
            ObjectKeyError: One of them has a key that can't be shown at all.
        """
        with _translate_errors("list", prefix), _translate_key_errors():
            metas = [meta for batch in obstore.list(self._store, prefix or None) for meta in batch]
        found = [ListedObject(meta["path"], meta["size"], str(meta["e_tag"])) for meta in metas]
        return iter(sorted(found, key=lambda one: one.key))

    def read_range(self, key: str, start: int, end: int, etag: str) -> bytes:
        """Bytes of the object that has that tag; ObjectChangedError if it has another one."""
        with _translate_errors("read", key):
            return bytes(obstore.get(self._store, key, options={"range": (start, end), "if_match": etag}).bytes())

    def put_parts(self, key: str, parts: Iterator[bytes], size: int) -> None:
        """Write an object of about that size, a part at a time: there whole, or not at all."""
        with _translate_errors("write", key):
            obstore.put(
                self._store,
                key,
                parts,
                chunk_size=max(PART_BYTES, size // _MAX_PARTS),
                max_concurrency=_MAX_CONCURRENT_PARTS,
            )

    @contextmanager
    def open_writer(self, key: str) -> Iterator[BinaryIO]:
        """Give a file to write to; the object is there when the block has ended, whole, and not at all if it fails.

        Parts that were sent before it failed are no object; a rule of the bucket may have the store remove them.
        """
        with _translate_upload_errors(key):
            upload = obstore.open_writer(
                self._store, key, buffer_size=_WRITTEN_PART_BYTES, max_concurrency=_MAX_CONCURRENT_PARTS
            )
        yield cast("BinaryIO", _Upload(upload, key))
        with _translate_upload_errors(key):
            upload.close()

    def copy(self, key: str, to: str) -> None:
        """Copy an object within the bucket, by the store itself; one that is there is written over."""
        with _translate_errors("copy", key):
            obstore.copy(self._store, key, to)

    def stat(self, key: str) -> ObjectInfo | None:
        """See ObjectStore."""
        try:
            with _translate_errors("look up", key):
                meta = obstore.head(self._store, key)
        except ObjectMissingError:
            return None
        return ObjectInfo(key, meta["size"], meta["last_modified"])

    def put(self, key: str, data: bytes) -> str:
        """See ObjectStore."""
        with _translate_errors("write", key):
            return str(obstore.put(self._store, key, data, use_multipart=False)["e_tag"])

    def put_if_absent(self, key: str, data: bytes) -> str:
        """See ObjectStore."""
        with _translate_errors("write", key):
            return str(obstore.put(self._store, key, data, mode="create", use_multipart=False)["e_tag"])

    def put_if_match(self, key: str, data: bytes, etag: str) -> str:
        """See ObjectStore."""
        try:
            with _translate_errors("write", key):
                return str(obstore.put(self._store, key, data, mode={"e_tag": etag}, use_multipart=False)["e_tag"])
        except ObjectMissingError:
            raise ObjectChangedError(key) from None

    def delete(self, key: str) -> None:
        """See ObjectStore."""
        with _translate_errors("delete", key):
            try:
                obstore.delete(self._store, key)
            except FileNotFoundError:
                return

    def delete_if_match(self, key: str, etag: str) -> None:
        """See ObjectStore."""
        found = self.find(key)
        if found is None or found.etag != etag:
            raise ObjectChangedError(key)
        self.delete(key)

    def list_under(self, prefix: str) -> list[ObjectInfo]:
        """See ObjectStore. The reserve of a graph that was copied here from a disk is left out, as it is there."""
        with _translate_errors("list", prefix):
            found = [meta for batch in obstore.list(self._store, prefix) for meta in batch if meta["path"] != RESERVE]
        infos = (ObjectInfo(m["path"], m["size"], m["last_modified"]) for m in found)
        return sorted(infos, key=lambda info: info.key)

    def list_children(self) -> list[str]:
        """See ObjectStore."""
        with _translate_errors("list", ""):
            result = obstore.list_with_delimiter(self._store)
        names = [*result["common_prefixes"], *(meta["path"] for meta in result["objects"])]
        return sorted(name.rsplit("/", 1)[-1] for name in names)


class _Upload(io.RawIOBase):
    """An object that is being written, as an open file."""

    def __init__(self, upload: "WritableFile", key: str) -> None:
        super().__init__()
        self._upload, self._key = upload, key

    def writable(self) -> bool:
        return True

    def write(self, data: "ReadableBuffer", /) -> int:
        with _translate_upload_errors(self._key):
            self._upload.write(data)
        return memoryview(data).nbytes
