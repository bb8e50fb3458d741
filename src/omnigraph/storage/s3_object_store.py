"""Store objects on S3 or on Azure, through the same object-store library that Lance uses."""

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
from obstore.store import AzureStore, S3Store

from omnigraph.locations import AZURE
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
    from obstore.store import AzureConfig, ClientConfig, RetryConfig, S3Config

# Options of the HTTP client; the others are those of the bucket.
_CLIENT_OPTIONS = frozenset({"allow_http", "timeout", "connect_timeout"})
# Lance's names for the limits of retries, in number and in seconds; control objects have the same limits.
_MAX_RETRIES, _RETRY_SECONDS = "client_max_retries", "client_retry_timeout"
# Options that only Lance understands.
_LANCE_OPTIONS = frozenset({_MAX_RETRIES, _RETRY_SECONDS, "download_retry_count"})
# The beginning of the names of options for Azure; a load may have a graph on one store and input on another.
_AZURE_OPTIONS = "azure_"
# The size of one part of a large object that is read or written.
PART_BYTES = 8 * 1024 * 1024
# A store accepts 10,000 parts per object: with parts of this size, an output of unknown size may have 300 GB.
_WRITTEN_PART_BYTES = 32 * 1024 * 1024
# With a margin below the 10,000 parts that a store accepts: `put_parts` gets an approximate size.
_MAX_PARTS = 9_000
_MAX_CONCURRENT_PARTS = 2
# The library's message about a key that it rejects. The listing then fails as a whole.
_INVALID_KEY_MESSAGE = re.compile(
    r'object with invalid path: (?:Error parsing )?Path "(?P<key>.*)"(?: contained|: Enc)', re.DOTALL
)


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
        # A listing that is denied raises a general error.
        is_denied = any(status in str(error) for status in ("401 Unauthorized", "403 Forbidden"))
        failure = StoreDeniedError if is_denied else StoreUnavailableError
        raise failure(f"{action} `{key}`", _extract_reason(error)) from error


@contextmanager
def _translate_upload_errors(key: str) -> Iterator[None]:
    """Translate the errors of writing a new object, where only the bucket can be missing."""
    try:
        with _translate_errors("write", key):
            yield
    except ObjectMissingError as error:
        raise StoreUnavailableError(f"write `{key}`", "there is no such bucket") from error


@contextmanager
def _translate_key_errors() -> Iterator[None]:
    """Translate the failure of a listing because of one key to ObjectKeyError."""
    try:
        yield
    except BaseError as error:
        match = _INVALID_KEY_MESSAGE.search(str(error))
        if match is None:
            raise
        raise ObjectKeyError(match["key"]) from error


def _extract_reason(error: Exception) -> str:
    return str(error).split("\n", 1)[0]


@dataclass(frozen=True, slots=True)
class ListedObject:
    """An object as a listing shows it, with the etag that its content had then."""

    key: str
    size: int
    etag: str


class S3ObjectStore:
    """An ObjectStore on a bucket, or a container (`az://name`), that honours `If-None-Match` and `If-Match`."""

    def __init__(self, bucket: str, prefix: str, options: Mapping[str, str], *, max_retries: int = 5) -> None:
        client = cast("ClientConfig", {name: value for name, value in options.items() if name in _CLIENT_OPTIONS})
        config = {name: value for name, value in options.items() if name not in _CLIENT_OPTIONS | _LANCE_OPTIONS}
        retries: RetryConfig = {
            "max_retries": int(options.get(_MAX_RETRIES, max_retries)),
            "retry_timeout": timedelta(seconds=float(options.get(_RETRY_SECONDS, 60))),
        }
        azure = {name: value for name, value in config.items() if name.startswith(_AZURE_OPTIONS)}
        self._store: AzureStore | S3Store
        if bucket.startswith(AZURE):
            self._store = AzureStore(
                bucket.removeprefix(AZURE),
                prefix=prefix,
                config=cast("AzureConfig", azure),
                client_options=client,
                retry_config=retries,
            )
        else:
            others = {name: value for name, value in config.items() if name not in azure}
            self._store = S3Store(
                bucket,
                prefix=prefix,
                config=cast("S3Config", others),
                client_options=client,
                retry_config=retries,
            )

    def get(self, key: str) -> StoredObject:
        """See ObjectStore."""
        with _translate_errors("read", key):
            result = obstore.get(self._store, key)
            meta, data = result.meta, bytes(result.bytes())
        return StoredObject(data, str(meta["e_tag"]), ObjectInfo(key, len(data), meta["last_modified"]))

    def get_range(self, key: str, start: int, size: int) -> bytes:
        """See ObjectStore."""
        with _translate_errors("read", key):
            return bytes(obstore.get(self._store, key, options={"range": (start, start + size)}).bytes())

    def get_up_to(self, key: str, limit: int) -> bytes | None:
        """Return the content of an object, or None, without reading it, if it has more than `limit` bytes."""
        with _translate_errors("read", key):
            result = obstore.get(self._store, key)
            return None if result.meta["size"] > limit else bytes(result.bytes())

    def iter_parts(self, key: str) -> Iterator[bytes]:
        """Yield the content of an object in parts."""
        with _translate_errors("read", key):
            for part in obstore.get(self._store, key).stream(min_chunk_size=PART_BYTES):
                yield bytes(part)

    def find(self, key: str) -> ListedObject | None:
        """Return size and etag of an object, or None if there is none."""
        try:
            with _translate_errors("look up", key):
                meta = obstore.head(self._store, key)
        except ObjectMissingError:
            return None
        return ListedObject(key, meta["size"], str(meta["e_tag"]))

    def iter_below(self, prefix: str) -> Iterator[ListedObject]:
        """Return all objects below a prefix, sorted by key; a slash at the end of a key is not shown.

        Raises:
            ObjectKeyError: The client library can't list the key of one of them.
        """
        with _translate_errors("list", prefix), _translate_key_errors():
            metas = [meta for batch in obstore.list(self._store, prefix or None) for meta in batch]
        objects = [ListedObject(meta["path"], meta["size"], str(meta["e_tag"])) for meta in metas]
        return iter(sorted(objects, key=lambda listed: listed.key))

    def read_range(self, key: str, start: int, end: int, etag: str) -> bytes:
        """Return the bytes from `start` to `end` of the object with this etag.

        Raises:
            ObjectChangedError: The object has another etag.
            ObjectMissingError: No object has this key.
        """
        with _translate_errors("read", key):
            return bytes(obstore.get(self._store, key, options={"range": (start, end), "if_match": etag}).bytes())

    def put_parts(self, key: str, parts: Iterator[bytes], size: int) -> None:
        """Write an object of about `size` bytes in parts; it appears complete, or not at all."""
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
        """Open a file to write to; the object appears, complete, when the block ends without an error.

        After an error, parts already sent are not an object; a lifecycle rule of the bucket can remove them.
        """
        with _translate_upload_errors(key):
            upload = obstore.open_writer(
                self._store, key, buffer_size=_WRITTEN_PART_BYTES, max_concurrency=_MAX_CONCURRENT_PARTS
            )
        # Not in a `finally`: closing completes the upload, and a partial output must not replace an object.
        yield cast("BinaryIO", _Upload(upload, key))
        with _translate_upload_errors(key):
            upload.close()

    def copy(self, key: str, to: str) -> None:
        """Copy an object within the bucket, on the server; an existing object is overwritten."""
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
            # The object with this etag was removed.
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
        current = self.find(key)
        if current is None or current.etag != etag:
            raise ObjectChangedError(key)
        self.delete(key)

    def list_under(self, prefix: str) -> list[ObjectInfo]:
        """See ObjectStore. The reserve of a graph that was copied from a local disk is left out, as it is there."""
        with _translate_errors("list", prefix):
            metas = [meta for batch in obstore.list(self._store, prefix) for meta in batch if meta["path"] != RESERVE]
        infos = (ObjectInfo(meta["path"], meta["size"], meta["last_modified"]) for meta in metas)
        return sorted(infos, key=lambda info: info.key)

    def list_children(self) -> list[str]:
        """See ObjectStore."""
        with _translate_errors("list", ""):
            result = obstore.list_with_delimiter(self._store)
        names = [*result["common_prefixes"], *(meta["path"] for meta in result["objects"])]
        return sorted(name.rsplit("/", 1)[-1] for name in names)


class _Upload(io.RawIOBase):
    """A writable file over a multipart upload."""

    def __init__(self, upload: "WritableFile", key: str) -> None:
        super().__init__()
        self._upload = upload
        self._key = key

    def writable(self) -> bool:
        return True

    def write(self, data: "ReadableBuffer", /) -> int:
        with _translate_upload_errors(self._key):
            self._upload.write(data)
        return memoryview(data).nbytes
