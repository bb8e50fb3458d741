"""A digest of what a load asks for: by it an idempotency key is known to come with the same load again.

It covers the mode, the options, the types and columns, and the content: the bytes of files and streams, the rows of
Arrow data as IPC. Streams can be read once, so they are digested while the load reads them; a repeated load, which
reads nothing else, reads them to the end.
"""

import os
import stat
from collections.abc import Iterable, Iterator
from dataclasses import replace
from hashlib import blake2b, file_digest
from pathlib import Path
from typing import BinaryIO, cast

import msgspec
import pyarrow as pa

from omnigraph.engine.decoding.input_files import translate_file_errors
from omnigraph.engine.decoding.json_lines import iter_chunks
from omnigraph.engine.decoding.typed_files import ArrowStream
from omnigraph.ops.argument_checks import BadArgumentError
from omnigraph.ops.load_call import LoadCall
from omnigraph.ops.load_inputs import GraphSource, LoadInput, PathLike, list_files
from omnigraph.storage.s3_input_files import InputFile, RemoteFile

MAX_WHOLE_FILE_BYTES = 1 << 30
"""Files up to this size are digested whole: about a second a gigabyte. Of larger ones size and time are taken."""
_DIGEST_BYTES = 16


class RequestDigest:
    """The digest of one load. Load `call`, whose streams are watched; ask for the `value` when it is read."""

    def __init__(self, call: LoadCall, storage: dict[str, str]) -> None:
        self._storage = storage
        self._value: str | None = None
        self._is_wanted = call.idempotency_key is not None and not call.is_known_by_key and not call.is_dry_run
        self.call = call if not self._is_wanted else replace(call, input=_watch(call))

    def get_or_compute(self) -> str | None:
        """Return the digest, reading what of the input was not read yet; None for a load without a key."""
        if self._is_wanted and self._value is None:
            self._value = self._compute()
        return self._value

    def _compute(self) -> str:
        call = self.call
        graph = [self._digest_content(source.data) for source in call.input.graph]
        typed = [
            [one.type, one.is_edge, dict(one.columns), call.digests.get(number) or self._digest_content(one.data)]
            for number, one in enumerate(call.input.typed)
        ]
        options = [call.mode.value, call.only_known, call.on_error is not None, call.max_errors]
        return _hash(msgspec.json.encode([options, graph, typed], order="deterministic"))

    def _digest_content(self, data: object) -> list[str]:
        """Digest one source, file by file."""
        if isinstance(data, _HashedChunks | _HashedRows):
            return [data.finalize()]
        paths = data if isinstance(data, tuple) else (data,)
        return [_digest_file(file) for path in paths for file in list_files(cast("PathLike", path), self._storage)]


def _watch(call: LoadCall) -> LoadInput:
    """Return the input with its streams watched. What has a digest already is left as it is.

    Raises:
        BadArgumentError: Rows of one type come by a pipe, which the load reads by itself.
    """
    graph = [_watch_graph(one) for one in call.input.graph]
    for one in call.input.typed:
        for path in one.data if isinstance(one.data, tuple) else (one.data,):
            if _is_read_once(path):
                expected = "give a file, or no idempotency key: what can be read only once can't be compared later"
                raise BadArgumentError("a load with a key", f"from `{path}`", expected)
    typed = [
        replace(one, data=_HashedRows(one.data))
        if isinstance(one.data, ArrowStream) and number not in call.digests
        else one
        for number, one in enumerate(call.input.typed)
    ]
    return LoadInput(graph=tuple(graph), typed=tuple(typed))


def _watch_graph(source: GraphSource) -> GraphSource:
    """Return a source that is hashed as it is read, unless it is a file that can be read a second time."""
    if not isinstance(source.data, str | os.PathLike):
        return replace(source, data=_HashedChunks(source.data))
    if _is_read_once(source.data):
        return GraphSource(data=_HashedChunks(_read_file(source.data)), name=str(source.data))
    return source


def _is_read_once(path: object) -> bool:
    """Return whether a path is that of a pipe or a device: only the load can read it."""
    return isinstance(path, str | os.PathLike) and (Path(path).is_fifo() or Path(path).is_char_device())


def _read_file(path: PathLike) -> Iterator[bytes]:
    with Path(path).open("rb") as file:
        yield from iter_chunks(file)


class _HashedChunks:
    """Bytes that are hashed as they are read."""

    def __init__(self, data: BinaryIO | Iterable[bytes]) -> None:
        self._chunks = iter(iter_chunks(data))
        self._hash = blake2b(digest_size=_DIGEST_BYTES)

    def __iter__(self) -> Iterator[bytes]:
        for chunk in self._chunks:
            self._hash.update(chunk)
            yield chunk

    def finalize(self) -> str:
        """Read what is left, and return the digest of all."""
        for _ in self:
            pass
        return self._hash.hexdigest()


class _HashedRows:
    """Arrow data whose rows are hashed as they are read."""

    def __init__(self, data: ArrowStream) -> None:
        self._data = data
        self._digest: str | None = None

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Return the stream, as Arrow's PyCapsule interface has it."""
        reader = pa.RecordBatchReader.from_stream(self._data)
        watched = pa.RecordBatchReader.from_batches(reader.schema, self._read(reader))
        return watched.__arrow_c_stream__(requested_schema)

    def _read(self, reader: pa.RecordBatchReader) -> Iterator[pa.RecordBatch]:
        sink = _HashSink()
        with pa.ipc.new_stream(pa.PythonFile(sink, "w"), reader.schema) as writer:
            for batch in reader:
                writer.write_batch(batch)
                yield batch
        self._digest = sink.hash.hexdigest()

    def finalize(self) -> str:
        """Read everything, unless that was done, and return the digest."""
        if self._digest is None:
            for _ in pa.RecordBatchReader.from_stream(self):
                pass
        assert self._digest is not None  # noqa: S101 - set when the last batch was read
        return self._digest


class _HashSink:
    """A file that keeps nothing but the hash of what is written to it."""

    closed = False

    def __init__(self) -> None:
        self.hash = blake2b(digest_size=_DIGEST_BYTES)

    def write(self, data: bytes) -> int:
        """Take bytes."""
        self.hash.update(data)
        return len(data)

    def flush(self) -> None:
        """Do nothing: nothing waits."""

    def close(self) -> None:
        """Do nothing: the hash stays."""


def _digest_file(file: InputFile) -> str:
    """Digest a file: an object by its tag, a file by its bytes, a large one by its size and time.

    What is no regular file any more, as it was when the load began, has changed.
    """
    if isinstance(file, RemoteFile):
        return f"{file.size} {file.etag}"
    with translate_file_errors(str(file)):
        info = file.stat()
        if not stat.S_ISREG(info.st_mode):
            return "no regular file"
        if info.st_size > MAX_WHOLE_FILE_BYTES:
            return f"{info.st_size} {info.st_mtime_ns}"
        with Path(file).open("rb") as opened:
            return file_digest(opened, lambda: blake2b(digest_size=_DIGEST_BYTES)).hexdigest()


def _hash(data: bytes) -> str:
    return blake2b(data, digest_size=_DIGEST_BYTES).hexdigest()
