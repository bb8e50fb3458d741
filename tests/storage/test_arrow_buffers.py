import subprocess
import sys

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraph.storage.arrow_buffers import build_array, fill_nulls, is_valid, read_booleans, read_numbers

INTEGERS = {pa.int32(): 32, pa.int64(): 64, pa.uint32(): 32, pa.uint64(): 64}


@st.composite
def slices(draw: st.DrawFn, values: st.SearchStrategy[object], type_: pa.DataType) -> pa.Array:
    """An array that begins anywhere in its memory, with nulls or without."""
    some = draw(st.lists(st.none() | values if draw(st.booleans()) else values, max_size=40))
    start = draw(st.integers(0, len(some)))
    return pa.array(some, type_).slice(start, draw(st.integers(0, len(some) - start)))


@given(array=slices(st.integers(-(2**31), 2**31 - 1), pa.int32()), filler=st.integers(-1, 1))
def test_numbers_are_what_pyarrow_says(array: pa.Array, filler: int) -> None:
    assert fill_nulls(array, filler).tolist() == array.fill_null(filler).to_pylist()
    assert read_numbers(array)[is_valid(array)].tolist() == array.drop_null().to_pylist()


@given(array=slices(st.booleans(), pa.bool_()))
def test_truths_are_what_pyarrow_says_and_null_is_false(array: pa.Array) -> None:
    assert read_booleans(array).tolist() == array.fill_null(False).to_pylist()
    assert is_valid(array).tolist() == array.is_valid().to_pylist()


@given(array=slices(st.text(max_size=3), pa.string()))
def test_what_is_given_is_what_pyarrow_says(array: pa.Array) -> None:
    assert is_valid(array).tolist() == array.is_valid().to_pylist()


def test_numbers_are_not_copied() -> None:
    values = np.arange(10)

    assert np.shares_memory(read_numbers(pa.array(values)), values)


@pytest.mark.parametrize("kind", ["?", "i4", "i8", "u4", "u8", "f8"])
@pytest.mark.parametrize("step", [1, 3, -1])
def test_an_array_is_what_pyarrow_makes_of_it(kind: str, step: int) -> None:
    values = (np.arange(19) % 5).astype(kind)[::step]

    assert build_array(values).equals(pa.array(values))
    assert build_array(values[:0]).equals(pa.array(values[:0]))


def test_nothing_here_imports_masked_arrays() -> None:
    code = """
import sys
import numpy as np, pyarrow as pa
from omnigraph.storage.arrow_buffers import build_array, fill_nulls, is_valid, read_booleans, read_numbers
array = build_array(np.arange(3))
fill_nulls(array, 0), is_valid(array), read_numbers(array), read_booleans(build_array(np.array([True])))
sys.exit("numpy.ma" in sys.modules)
"""

    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
