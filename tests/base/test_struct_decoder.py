"""A struct that many threads decode for the first time at once: msgspec alone would end the process."""

import subprocess
import sys

import msgspec
import pytest

from omnigraph.struct_decoder import convert, get_decoder

# In a process of its own, because a failure is a segmentation fault. With `msgspec.json.decode(DATA, type=outer)` and
# `msgspec.convert` instead, it comes within the first few structs.
SCRIPT = r"""
import sys, threading
from typing import Annotated
import msgspec
from omnigraph.struct_decoder import convert, get_decoder

sys.setswitchinterval(1e-6)
DATA = b'{"inner":{"a":"x","b":[{"c":1}],"c":"y"}}'
decoded = []
for number in range(100):
    # Other patterns each time: compiling them is what gives other threads a turn.
    text = Annotated[str, msgspec.Meta(pattern=rf"\A[a-z{number}]+\Z")]
    inner = msgspec.defstruct(f"Inner{number}", [("a", text), ("b", list[dict[str, int]]), ("c", text)])
    outer = msgspec.defstruct(f"Outer{number}", [("inner", inner)])
    barrier = threading.Barrier(8)

    def run(position):
        barrier.wait()
        if position % 3 == 0:
            decoded.append(get_decoder(outer).decode(DATA).inner.c)
        elif position % 3 == 1:
            decoded.append(get_decoder(inner).decode(DATA[9:-1]).c)
        else:
            decoded.append(convert({"a": "x", "b": [], "c": "y"}, inner).c)

    threads = [threading.Thread(target=run, args=(position,)) for position in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
assert decoded == ["y"] * 800, len(decoded)
"""


class Point(msgspec.Struct, forbid_unknown_fields=True):
    x: int


def test_a_type_has_one_decoder() -> None:
    assert get_decoder(Point) is get_decoder(Point)
    assert get_decoder(Point).decode(b'{"x": 1}') == Point(1)
    assert convert({"x": 2}, Point) == Point(2)


@pytest.mark.parametrize("text", ['{"x": "1"}', '{"x": 1, "y": 2}'])
def test_decoding_is_strict(text: str) -> None:
    with pytest.raises(msgspec.ValidationError):
        get_decoder(Point).decode(text)
    with pytest.raises(msgspec.ValidationError):
        convert(msgspec.json.decode(text), Point)


def test_threads_may_decode_a_struct_for_the_first_time_at_once() -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=False)

    assert (done.returncode, done.stderr) == (0, "")
