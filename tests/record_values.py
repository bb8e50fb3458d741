"""Random values of every type, as Arrow takes them: the ends of ranges, odd texts, nulls."""

from datetime import UTC

from hypothesis import strategies as st

TEXT = st.text(max_size=8)
F32 = st.floats(width=32, allow_nan=False, allow_infinity=False)
I64 = st.integers(-(2**63), 2**63 - 1)
VALUES: dict[str, st.SearchStrategy[object]] = {
    "text": TEXT,
    "flag": st.booleans(),
    "i32": st.integers(-(2**31), 2**31 - 1),
    "u32": st.integers(0, 2**32 - 1),
    "i64": I64,
    "u64": st.integers(0, 2**64 - 1),
    "f32": F32,
    "f64": st.floats(allow_nan=False, allow_infinity=False),
    "day": st.dates(),
    "seen": st.datetimes(timezones=st.just(UTC)),
    "vec": st.lists(F32, min_size=3, max_size=3),
    "tags": st.lists(TEXT, max_size=3),
    "nums": st.lists(I64, max_size=3),
    "days": st.lists(st.dates(), max_size=3),
}
THINGS = st.lists(
    st.fixed_dictionaries(
        {"id": st.text(min_size=1, max_size=8), **{name: st.none() | one for name, one in VALUES.items()}}
    ),
    min_size=1,
    max_size=5,
    unique_by=lambda row: row["id"],
)
"""Rows of `Thing` in the schema of `record_reading`."""
BLOBS = st.lists(
    st.one_of(st.binary(max_size=20), st.sampled_from([b"", bytes(range(256)), b"x" * 100_000])), max_size=3
)
