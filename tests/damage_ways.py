"""What becomes of a file: other bytes, or none. Each way gets the other files, and a seeded generator."""

import random
from collections.abc import Callable, Sequence
from pathlib import Path

from damage_files import GraphFile

PAGE = 4_096
Way = Callable[[bytes, Sequence[bytes], random.Random], bytes | None]
"""Takes the bytes of a file, those of its siblings (older ones first), and a generator; None removes the file."""


def flip_bit(data: bytes, _: Sequence[bytes], seeded: random.Random) -> bytes:
    """Change one bit, anywhere."""
    return flip(data, seeded.randrange(8 * len(data)))


def flip(data: bytes, bit: int) -> bytes:
    """Change this bit."""
    changed = bytearray(data)
    changed[bit // 8] ^= 1 << bit % 8
    return bytes(changed)


def cut_half(data: bytes, _: Sequence[bytes], __: random.Random) -> bytes:
    """Lose the second half."""
    return data[: len(data) // 2]


def cut_byte(data: bytes, _: Sequence[bytes], __: random.Random) -> bytes:
    """Lose the last byte."""
    return data[:-1]


def empty(_: bytes, __: Sequence[bytes], ___: random.Random) -> bytes:
    """Lose all bytes."""
    return b""


def remove(_: bytes, __: Sequence[bytes], ___: random.Random) -> None:
    """Lose the file."""


def put_older(data: bytes, siblings: Sequence[bytes], _: random.Random) -> bytes:
    """Take the content of an older file of the same kind, as a backup that mixes times would."""
    return next((other for other in reversed(siblings) if other != data), data)


def put_equal_sized(data: bytes, siblings: Sequence[bytes], seeded: random.Random) -> bytes:
    """Take the content of another file of the same kind and size."""
    equal = [other for other in siblings if len(other) == len(data) and other != data]
    return seeded.choice(equal) if equal else data


def zero_page(data: bytes, _: Sequence[bytes], seeded: random.Random) -> bytes:
    """Lose a page to zeros."""
    at = PAGE * seeded.randrange(-(-len(data) // PAGE))
    size = len(data[at : at + PAGE])
    return data[:at] + bytes(size) + data[at + size :]


def append_garbage(data: bytes, _: Sequence[bytes], seeded: random.Random) -> bytes:
    """Get more bytes."""
    return data + seeded.randbytes(seeded.randrange(1, 64))


WAYS: dict[str, Way] = {
    "flip": flip_bit,
    "cut half": cut_half,
    "cut byte": cut_byte,
    "empty": empty,
    "remove": remove,
    "older": put_older,
    "equal": put_equal_sized,
    "zero page": zero_page,
    "append": append_garbage,
}


def damaged(root: Path, file: GraphFile, way: str, seed: int, files: Sequence[GraphFile]) -> tuple[bytes | None, bool]:
    """Return what a way makes of a file, and whether that is anything else than it was."""
    path = root / file.place
    data = path.read_bytes()
    alike = [root / other.place for other in files if _base(other.kind) == _base(file.kind) and other != file]
    alike.sort(key=lambda other: (other.stat().st_mtime_ns, other.name))
    alike.sort(key=lambda other: other.parent == path.parent)  # those of the same table last, and so first in line
    made = WAYS[way](data, [other.read_bytes() for other in alike], random.Random(f"{seed} {way} {file.group}"))
    return made, made != data


def _base(kind: str) -> str:
    return kind.removeprefix("older ")
