"""Store control objects as files of a local directory.

The root may be any path. Below it every name is looked up relative to the descriptor of its directory, and no link is
followed: a graph from an untrusted source can't redirect a write or a removal out of its own directory.
"""

import errno
import fcntl
import hashlib
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime

from omnigraph.clock import Clock, SystemClock
from omnigraph.ids import draw_bytes
from omnigraph.storage.layout import RESERVE
from omnigraph.storage.object_store import (
    ForeignFileError,
    ObjectChangedError,
    ObjectExistsError,
    ObjectInfo,
    ObjectKeyError,
    ObjectMissingError,
    StoredObject,
    StoreUnavailableError,
    convert_os_error,
)

_TEMPORARY_PREFIX = ".tmp-"
_UNLISTED_PREFIXES = (_TEMPORARY_PREFIX, RESERVE.rpartition("/")[2])
_DIRECTORY_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# Without O_NONBLOCK, opening a named pipe waits until another process opens it for writing.
_FILE_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
# A lock is held for one comparison and one flushed write. Who holds it longer was stopped in the midst, or its machine
# sleeps: a heartbeat that was stopped there kept every process that opened the graph waiting for as long.
_MAX_LOCK_SECONDS = 10.0
_LOCK_POLL_SECONDS = 0.002
_FOREIGN_KINDS = {
    stat.S_IFLNK: "a symbolic link",
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFDIR: "a directory",
}


@contextmanager
def _translate_errors(action: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise convert_os_error(action, error) from error


class LocalObjectStore:
    """An ObjectStore on a POSIX file system: put-if-absent by hard link, put-if-match under a file lock."""

    def __init__(
        self, root: str, *, is_durable: bool = True, follow_links: bool = False, clock: Clock | None = None
    ) -> None:
        self._root = root
        self._clock = clock or SystemClock()
        self._is_durable = is_durable
        # Applies to reads and listings only: nothing is changed or removed in a directory that is a link.
        self._follow = follow_links

    def get(self, key: str) -> StoredObject:
        """See ObjectStore."""
        with _translate_errors(f"read `{key}`"):
            try:
                with self._open_parent(key, follow=self._follow) as (directory, name):
                    return _read(directory, name, key)
            except (FileNotFoundError, NotADirectoryError):
                raise ObjectMissingError(key) from None

    def get_range(self, key: str, start: int, size: int) -> bytes:
        """See ObjectStore."""
        with _translate_errors(f"read `{key}`"):
            try:
                with self._open_parent(key, follow=self._follow) as (directory, name):
                    return _read_bytes(directory, name, key, size, start)[0]
            except (FileNotFoundError, NotADirectoryError):
                raise ObjectMissingError(key) from None

    def stat(self, key: str) -> ObjectInfo | None:
        """See ObjectStore."""
        with _translate_errors(f"look up `{key}`"):
            try:
                with self._open_parent(key, follow=self._follow) as (directory, name):
                    return _stat_file(directory, name, key)
            except (FileNotFoundError, NotADirectoryError):
                return None

    def put(self, key: str, data: bytes) -> str:
        """See ObjectStore."""
        with _translate_errors(f"write `{key}`"):
            os.makedirs(self._root, exist_ok=True)  # noqa: PTH103 - plain strings on this path
            with self._open_parent(key, create=True) as (directory, name):
                self._replace(directory, name, [data], is_durable=self._is_durable)
        return _compute_etag(data)

    def put_derived(self, key: str, parts: Sequence[memoryview | bytes]) -> None:
        """Write an object that can be derived again: atomically, without flushing it, and only if the root exists."""
        with _translate_errors(f"write `{key}`"), self._open_parent(key, create=True) as (directory, name):
            self._replace(directory, name, parts, is_durable=False)

    def get_derived(self, key: str) -> memoryview:
        """Return the content of an object without its etag, which would have to be computed.

        Raises:
            ObjectMissingError: No object has this key.
        """
        with _translate_errors(f"read `{key}`"):
            try:
                with self._open_parent(key, follow=self._follow) as (directory, name):
                    return memoryview(_read_bytes(directory, name, key)[0])
            except (FileNotFoundError, NotADirectoryError):
                raise ObjectMissingError(key) from None

    def put_if_absent(self, key: str, data: bytes) -> str:
        """See ObjectStore."""
        with _translate_errors(f"write `{key}`"):
            os.makedirs(self._root, exist_ok=True)  # noqa: PTH103 - as above
        with _translate_errors(f"write `{key}`"), self._open_parent(key, create=True) as (directory, name):
            with self._write_temporary(directory, [data], is_durable=self._is_durable) as temporary:
                try:
                    # A hard link fails if the name exists, where a rename would replace it.
                    os.link(temporary, name, src_dir_fd=directory, dst_dir_fd=directory, follow_symlinks=False)
                except FileExistsError:
                    raise ObjectExistsError(key) from None
            return _compute_etag(data)

    def put_if_match(self, key: str, data: bytes, etag: str) -> str:
        """See ObjectStore."""
        with _translate_errors(f"write `{key}`"), self._lock_matching_parent(key, etag) as (directory, name):
            self._replace(directory, name, [data], is_durable=self._is_durable)
        return _compute_etag(data)

    def delete(self, key: str) -> None:
        """See ObjectStore."""
        with _translate_errors(f"delete `{key}`"):
            try:
                with self._open_parent(key) as (directory, name):
                    # The lock of put_if_match: a removal between its comparison and its write would be undone.
                    _lock(directory, key, self._clock)
                    os.unlink(name, dir_fd=directory)
            except (FileNotFoundError, NotADirectoryError):
                return

    def delete_if_match(self, key: str, etag: str) -> None:
        """See ObjectStore."""
        with _translate_errors(f"delete `{key}`"), self._lock_matching_parent(key, etag) as (directory, name):
            os.unlink(name, dir_fd=directory)

    def list_under(self, prefix: str) -> list[ObjectInfo]:
        """See ObjectStore. A link is listed as an object, and never entered."""
        infos: list[ObjectInfo] = []
        with _translate_errors(f"list `{prefix}`"):
            try:
                # Any name below the prefix will do: only its directory is opened.
                with self._open_parent(f"{prefix}/any", follow=self._follow) as (directory, _):
                    _collect_infos(directory, prefix, infos)
            except (FileNotFoundError, NotADirectoryError):
                return []
        return sorted(infos, key=lambda info: info.key)

    def list_children(self) -> list[str]:
        """See ObjectStore."""
        with _translate_errors("list the root"):
            try:
                return sorted(entry.name for entry in os.scandir(self._root))
            except FileNotFoundError:
                return []

    def remove_directory(self, key: str) -> None:
        """Remove a directory if it exists and is empty."""
        with _translate_errors(f"remove the directory `{key}`"):
            try:
                with self._open_parent(key) as (directory, name):
                    os.rmdir(name, dir_fd=directory)
            except OSError as error:
                if error.errno not in (errno.ENOENT, errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):
                    raise

    def list_temporary(self, prefix: str) -> list[ObjectInfo]:
        """Return the temporary files of writers directly below a directory, which no other listing shows."""
        with _translate_errors(f"list `{prefix}`"):
            try:
                with self._open_parent(f"{prefix}/any") as (directory, _):
                    with os.scandir(directory) as entries:
                        names = [entry.name for entry in entries if entry.name.startswith(_TEMPORARY_PREFIX)]
                    infos = [_stat_file(directory, name, f"{prefix}/{name}") for name in names]
            except (FileNotFoundError, NotADirectoryError):
                return []
        return [info for info in infos if info is not None]

    def find_foreign_files(self, prefix: str) -> list[ForeignFileError]:
        """Return an error, without raising it, for each link, pipe, socket or device at or below a directory."""
        # 2 ms for 4,000 files, so callers search a table when it is first opened and not at each read.
        errors: list[ForeignFileError] = []
        try:
            with (
                _translate_errors(f"look through `{prefix}`"),
                suppress(FileNotFoundError, NotADirectoryError),
                self._open_parent(f"{prefix}/any") as (directory, _),
            ):
                _collect_foreign_files(directory, prefix, errors)
        except ForeignFileError as error:
            errors.append(error)
        return errors

    @contextmanager
    def _open_parent(self, key: str, *, create: bool = False, follow: bool = False) -> Iterator[tuple[int, str]]:
        """Open the directory of an object; yield its descriptor and the object's name in it.

        Raises:
            ForeignFileError: A directory on the path is a link, and `follow` is not set.
            ObjectKeyError: The key has a segment that is empty, `.` or `..`.
        """
        *parts, name = key.split("/")
        if {"", ".", ".."} & {*parts, name} or "\0" in key:
            raise ObjectKeyError(key)
        # The user chose the root, so it may be a link itself.
        descriptor = os.open(self._root, _DIRECTORY_FLAGS & ~os.O_NOFOLLOW)
        try:
            # Relative to an open descriptor, a directory that is replaced by a link in the meantime has no effect.
            for depth, part in enumerate(parts, 1):
                if create:
                    with suppress(FileExistsError):
                        os.mkdir(part, dir_fd=descriptor)
                child = _open_directory(descriptor, part, "/".join(parts[:depth]), follow=follow)
                os.close(descriptor)
                descriptor = child
            yield descriptor, name
        finally:
            os.close(descriptor)

    @contextmanager
    def _lock_matching_parent(self, key: str, etag: str) -> Iterator[tuple[int, str]]:
        """Open and lock the directory of an object with this etag, so that compare and change are one atomic step.

        Raises:
            ObjectChangedError: The object has another etag, or is missing.
        """
        try:
            with self._open_parent(key) as (directory, name):
                _lock(directory, key, self._clock)
                if _read(directory, name, key).etag != etag:
                    raise ObjectChangedError(key)
                yield directory, name
        except (FileNotFoundError, NotADirectoryError):
            raise ObjectChangedError(key) from None

    def _replace(self, directory: int, name: str, parts: Sequence[memoryview | bytes], *, is_durable: bool) -> None:
        with self._write_temporary(directory, parts, is_durable=is_durable) as temporary:
            os.replace(temporary, name, src_dir_fd=directory, dst_dir_fd=directory)

    @contextmanager
    def _write_temporary(
        self, directory: int, parts: Sequence[memoryview | bytes], *, is_durable: bool
    ) -> Iterator[str]:
        """Write a temporary file and yield its name; after the block has renamed or linked it, flush the directory."""
        temporary = f"{_TEMPORARY_PREFIX}{draw_bytes(8).hex()}"
        try:
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            with os.fdopen(os.open(temporary, flags, 0o666, dir_fd=directory), "wb") as file:
                for part in parts:
                    file.write(part)
                file.flush()
                if is_durable:
                    os.fsync(file.fileno())
            yield temporary
            # The new name is an entry of the directory, which flushing the file does not make durable.
            if is_durable:
                os.fsync(directory)
        finally:
            with suppress(FileNotFoundError):
                os.unlink(temporary, dir_fd=directory)


def _open_directory(parent: int, name: str, key: str, *, follow: bool) -> int:
    try:
        return os.open(name, _DIRECTORY_FLAGS & ~os.O_NOFOLLOW if follow else _DIRECTORY_FLAGS, dir_fd=parent)
    except OSError as error:
        if error.errno in (errno.ENOTDIR, errno.ELOOP):
            _check_not_link(parent, name, key)
        raise


def _check_not_link(parent: int, name: str, key: str) -> None:
    """Check that a name is no symbolic link.

    Raises:
        ForeignFileError: It is one.
    """
    if stat.S_ISLNK(os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode):
        raise ForeignFileError(key, _FOREIGN_KINDS[stat.S_IFLNK])


def _read(directory: int, name: str, key: str) -> StoredObject:
    data, modified = _read_bytes(directory, name, key)
    return StoredObject(data, _compute_etag(data), ObjectInfo(key, len(data), modified))


def _read_bytes(directory: int, name: str, key: str, size: int = -1, start: int = 0) -> tuple[bytes, datetime]:
    """Return the content of a regular file, or `size` bytes from `start` on, and its modification time.

    Raises:
        ForeignFileError: It is not a regular file. A pipe is rejected without waiting for its writer.
    """
    try:
        descriptor = os.open(name, _FILE_FLAGS, dir_fd=directory)
    except OSError as error:
        if error.errno == errno.ELOOP:
            _check_not_link(directory, name, key)
        if error.errno == errno.ENXIO:  # from opening a socket
            raise ForeignFileError(key, _FOREIGN_KINDS[stat.S_IFSOCK]) from None
        raise
    try:
        # Checked on the open descriptor: between a check by name and the opening, the file could be replaced.
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise ForeignFileError(key, _FOREIGN_KINDS.get(stat.S_IFMT(status.st_mode), "not a regular file"))
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            if start:
                file.seek(start)
            data = file.read(size)
    finally:
        os.close(descriptor)
    return data, datetime.fromtimestamp(status.st_mtime, UTC)


def _stat_file(directory: int, name: str, key: str) -> ObjectInfo | None:
    try:
        status = os.stat(name, dir_fd=directory, follow_symlinks=False)
    except FileNotFoundError:
        return None
    return ObjectInfo(key, status.st_size, datetime.fromtimestamp(status.st_mtime, UTC))


def _collect_foreign_files(directory: int, prefix: str, errors: list[ForeignFileError]) -> None:
    with os.scandir(directory) as entries:
        names = [entry.name for entry in entries if not entry.is_file(follow_symlinks=False)]
    for name in names:
        key = f"{prefix}/{name}"
        try:
            child = _open_directory(directory, name, key, follow=False)
        except ForeignFileError as error:
            errors.append(error)
        except FileNotFoundError:
            continue  # removed after the listing
        except NotADirectoryError:
            mode = os.stat(name, dir_fd=directory, follow_symlinks=False).st_mode
            errors.append(ForeignFileError(key, _FOREIGN_KINDS.get(stat.S_IFMT(mode), "not a regular file")))
        else:
            try:
                _collect_foreign_files(child, key, errors)
            finally:
                os.close(child)


def _collect_infos(directory: int, prefix: str, infos: list[ObjectInfo]) -> None:
    """Add all objects below an open directory, at any depth, except for temporary files and the reserve."""
    with os.scandir(directory) as entries:
        names = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries]
    for name, is_directory in names:
        key = f"{prefix}/{name}"
        if is_directory:
            try:
                child = os.open(name, _DIRECTORY_FLAGS, dir_fd=directory)
            except FileNotFoundError:
                continue  # removed after the listing
            try:
                _collect_infos(child, key, infos)
            finally:
                os.close(child)
        elif not name.startswith(_UNLISTED_PREFIXES):
            info = _stat_file(directory, name, key)
            if info is not None:
                infos.append(info)


def _compute_etag(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _lock(directory: int, key: str, clock: Clock) -> None:
    """Lock a directory until it is closed.

    Raises:
        StoreUnavailableError: Another process has held the lock for too long.
    """
    deadline = clock.monotonic() + _MAX_LOCK_SECONDS
    while True:
        try:
            fcntl.flock(directory, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if clock.monotonic() > deadline:
                reason = (
                    f"a process has held the lock of its directory for {_MAX_LOCK_SECONDS:g} seconds;"
                    " let it go on if it is stopped, or end it"
                )
                raise StoreUnavailableError(f"change `{key}`", reason) from None
            clock.sleep(_LOCK_POLL_SECONDS)
        else:
            return
