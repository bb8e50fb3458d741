"""Control objects as files of a local directory."""

import fcntl
import hashlib
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from omnigraph.storage.durable import flush_directory
from omnigraph.storage.objects import (
    ObjectChangedError,
    ObjectExistsError,
    ObjectInfo,
    ObjectMissingError,
    StoredObject,
    StoreUnavailableError,
)

_TEMPORARY = ".tmp-"


@contextmanager
def _store_errors(action: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise StoreUnavailableError(action, os.strerror(error.errno) if error.errno else str(error)) from error


class LocalObjects:
    """An ObjectStore on a POSIX file system: put-if-absent by hard link, put-if-match under a file lock."""

    def __init__(self, root: str, *, is_durable: bool = True) -> None:
        self._root = Path(root)
        self._is_durable = is_durable

    def get(self, key: str) -> StoredObject:
        """See ObjectStore."""
        path = self._root / key
        with _store_errors(f"read `{key}`"):
            try:
                with path.open("rb") as file:
                    data, modified = file.read(), os.fstat(file.fileno()).st_mtime
            except (FileNotFoundError, NotADirectoryError):
                raise ObjectMissingError(key) from None
        return StoredObject(data, _etag(data), ObjectInfo(key, len(data), datetime.fromtimestamp(modified, UTC)))

    def get_start(self, key: str, size: int) -> bytes:
        """See ObjectStore."""
        with _store_errors(f"read `{key}`"):
            try:
                with (self._root / key).open("rb") as file:
                    return file.read(size)
            except (FileNotFoundError, NotADirectoryError):
                raise ObjectMissingError(key) from None

    def info(self, key: str) -> ObjectInfo | None:
        """See ObjectStore."""
        with _store_errors(f"look up `{key}`"):
            try:
                stat = (self._root / key).stat()
            except (FileNotFoundError, NotADirectoryError):
                return None
        return ObjectInfo(key, stat.st_size, datetime.fromtimestamp(stat.st_mtime, UTC))

    def put(self, key: str, data: bytes) -> str:
        """See ObjectStore."""
        with _store_errors(f"write `{key}`"), self._written(key, data) as temporary:
            temporary.replace(self._root / key)
        return _etag(data)

    def put_if_absent(self, key: str, data: bytes) -> str:
        """See ObjectStore."""
        with _store_errors(f"write `{key}`"), self._written(key, data) as temporary:
            try:
                os.link(temporary, self._root / key)
            except FileExistsError:
                raise ObjectExistsError(key) from None
        return _etag(data)

    def put_if_match(self, key: str, data: bytes, etag: str) -> str:
        """See ObjectStore."""
        path = self._root / key
        with _store_errors(f"write `{key}`"), self._locked(path.parent):
            try:
                found = _etag(path.read_bytes())
            except FileNotFoundError:
                raise ObjectChangedError(key) from None
            if found != etag:
                raise ObjectChangedError(key)
            with self._written(key, data) as temporary:
                temporary.replace(path)
        return _etag(data)

    def delete(self, key: str) -> None:
        """See ObjectStore."""
        path = self._root / key
        with _store_errors(f"delete `{key}`"):
            if path.parent.is_dir():
                with self._locked(path.parent):
                    path.unlink(missing_ok=True)

    def delete_if_match(self, key: str, etag: str) -> None:
        """See ObjectStore."""
        path = self._root / key
        with _store_errors(f"delete `{key}`"):
            try:
                with self._locked(path.parent):
                    if _etag(path.read_bytes()) != etag:
                        raise ObjectChangedError(key)
                    path.unlink()
            except FileNotFoundError:
                raise ObjectChangedError(key) from None

    def list_under(self, prefix: str) -> list[ObjectInfo]:
        """See ObjectStore."""
        found: list[ObjectInfo] = []
        with _store_errors(f"list `{prefix}`"):
            for directory, _, names in os.walk(self._root / prefix, onerror=_raise_unless_missing):
                for name in names:
                    if name.startswith(_TEMPORARY):
                        continue
                    info = self.info(Path(directory, name).relative_to(self._root).as_posix())
                    if info is not None:  # else it was removed while we listed
                        found.append(info)
        return sorted(found, key=lambda info: info.key)

    def children(self) -> list[str]:
        """See ObjectStore."""
        with _store_errors("list the root"):
            try:
                return sorted(entry.name for entry in os.scandir(self._root))
            except FileNotFoundError:
                return []

    @contextmanager
    def _written(self, key: str, data: bytes) -> Iterator[Path]:
        """A complete temporary file beside `key`; the directory is flushed when the block has placed it."""
        parent = (self._root / key).parent
        parent.mkdir(parents=True, exist_ok=True)
        temporary = parent / f"{_TEMPORARY}{secrets.token_hex(8)}"
        try:
            with temporary.open("xb") as file:
                file.write(data)
                file.flush()
                if self._is_durable:
                    os.fsync(file.fileno())
            yield temporary
            if self._is_durable:
                flush_directory(str(parent))
        finally:
            temporary.unlink(missing_ok=True)

    @contextmanager
    def _locked(self, directory: Path) -> Iterator[None]:
        """Hold the directory's own lock, so that compare and write are one step for every process."""
        descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)


def _etag(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _raise_unless_missing(error: OSError) -> None:
    if not isinstance(error, FileNotFoundError):
        raise error
