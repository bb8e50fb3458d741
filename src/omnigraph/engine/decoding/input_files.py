"""Input files: formats by file extension, opening and decompression, and errors of files that can't be read."""

import bz2
import gzip
import io
import lzma
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePath
from typing import Any, BinaryIO, cast

import pyarrow as pa

from omnigraph.errors import (
    BadFileError,
    FileDeniedError,
    FileMissingError,
    FileUnreadableError,
    Kind,
    OmnigraphError,
)
from omnigraph.storage.s3_input_files import InputFile

CHUNK_BYTES = 1 << 20
COMPRESSED = (".gz", ".bz2", ".xz", ".zst")

LINE_ENDINGS = (".jsonl", ".ndjson")
TYPED_ENDINGS = (".parquet", ".orc", ".csv", *LINE_ENDINGS)
"""How the name of a file of one type may end; text may also be compressed, as in `.csv.gz` or `.jsonl.zst`."""
COMPRESSIBLE = frozenset({".csv", *LINE_ENDINGS})


class FileFormatError(OmnigraphError):
    """The file extension is not one that can be loaded; `reason` adds details."""

    kind = Kind.USAGE
    code = "file_format"
    path: str
    reason: str = ""

    def __str__(self) -> str:
        compressible = ", ".join(f"{ending}{COMPRESSED[0]}" for ending in (".csv", LINE_ENDINGS[0]))
        reason = self.reason or f"it ends in none of {', '.join(TYPED_ENDINGS)}, {compressible}"
        return f"`{self.path}` can't be loaded by its name: {reason}"


class FileDamagedError(OmnigraphError):
    """A file does not have the format of its extension, or is truncated."""

    kind = Kind.INVALID
    code = "file_damaged"
    path: str
    reason: str
    message = "`{path}` can't be read in its format: {reason}"


def find_ending(path: InputFile) -> str:
    """Return the extension that determines the format, in lower case, without that of a compression."""
    name = PurePath(path.name.lower())
    inner = name.with_suffix("")
    return inner.suffix if name.suffix in COMPRESSED and inner.suffix in COMPRESSIBLE else name.suffix


@contextmanager
def translate_file_errors(path: str) -> Iterator[None]:
    """Translate errors of reading a file into ours. Nothing else should be done inside."""
    try:
        yield
    except FileNotFoundError as error:
        raise FileMissingError(path) from error
    except IsADirectoryError as error:
        raise BadFileError.not_a_file(path) from error
    except PermissionError as error:
        raise FileDeniedError(path, "read") from error
    except (gzip.BadGzipFile, zlib.error, lzma.LZMAError, EOFError) as error:
        raise FileDamagedError(path, f"its compressed data is damaged or breaks off ({error})") from error
    except OSError as error:
        if error.errno is None:  # not the system's: Arrow's readers say so of damaged data
            raise FileDamagedError(path, str(error)) from error
        raise FileUnreadableError(path, error.strerror or str(error)) from error
    except pa.ArrowException as error:
        raise FileDamagedError(path, str(error)) from error


def open_input(path: InputFile) -> BinaryIO:
    """Open a file, decompressed if its name ends like one of `COMPRESSED`."""
    ending = PurePath(path.name.lower()).suffix
    if ending not in COMPRESSED:
        return path.open("rb")
    if ending == ".zst":
        stream = pa.CompressedInputStream(pa.PythonFile(path.open("rb"), mode="r"), "zstd")
        return cast("BinaryIO", io.BufferedReader(_ArrowFile(stream)))
    file = path if isinstance(path, Path) else path.open("rb")
    if ending == ".gz":
        return cast("BinaryIO", gzip.open(file, "rb"))
    return cast("BinaryIO", bz2.open(file, "rb") if ending == ".bz2" else lzma.open(file, "rb"))


class _ArrowFile(io.RawIOBase):
    """A file object over a stream of Arrow, which does not know lines."""

    def __init__(self, stream: pa.NativeFile) -> None:
        self._stream = stream

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:  # noqa: ANN401 - any writable buffer
        data = self._stream.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        self._stream.close()
        super().close()


def read_file_chunks(path: InputFile) -> Iterator[bytes]:
    """Yield the bytes of a file in chunks, with its errors translated."""
    with translate_file_errors(str(path)):
        file = open_input(path)
    with file:
        while True:
            with translate_file_errors(str(path)):
                chunk = file.read(CHUNK_BYTES)
            if not chunk:
                return
            yield chunk
