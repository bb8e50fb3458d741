"""Run work over large arrays on several threads: numpy and Arrow release the interpreter's lock in their kernels.

The parts and the order of their results do not depend on the number of threads, so neither do answers.
"""

import os
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import pairwise
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from omnigraph.engine.query_budget import Budget

T = TypeVar("T")
Part = TypeVar("Part")

# Work over fewer rows runs in one part: starting two threads takes about 0.2 ms, the time of 200,000 rows.
MIN_PARALLEL_ROWS = 1 << 18
# A chunk whose work arrays of 8 bytes stay in the processor's cache, and after which the deadline is checked.
MAX_CHUNK_ROWS = 1 << 18
# Values sampled for each part to choose ranges of about equal size.
_SAMPLES_PER_PART = 256
# Values sampled to select those at some places, and the places of the sample to both sides that are allowed for: four
# standard deviations of the middle one, and some more.
_SELECTION_SAMPLES = 4_096
_SAMPLE_MARGIN = 160


def count_threads(threads: int | None) -> int:
    """Return the number of threads that a setting allows; without one, the cores of this process."""
    return threads or count_cores()


def count_cores() -> int:
    """Return the number of cores that this process may use; where the system does not tell, those of the machine."""
    # macOS has no affinity.
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def map_parts(work: Callable[[Part], T], parts: Sequence[Part], budget: Budget) -> list[T]:
    """Return the results of all parts, in order, computed on as many threads as the operation may use.

    The budget is checked before each part. The first error ends the work; parts that run are waited for.
    """

    def run(part: Part) -> T:
        budget.check()
        return work(part)

    return run_threads(run, parts, budget.threads)


def run_threads(work: Callable[[Part], T], parts: Sequence[Part], threads: int) -> list[T]:
    """Return the results of all parts, in order, computed on at most this number of threads, one of them the caller's.

    Threads of their own and no pool: a pool accepts no work while the process ends, when background threads still run.
    """
    if threads == 1 or len(parts) < 2:
        return [work(part) for part in parts]
    results: dict[int, T] = {}
    errors: dict[int, BaseException] = {}
    numbers = iter(range(len(parts)))
    lock = threading.Lock()

    def run() -> None:
        while not errors:
            with lock:
                number = next(numbers, None)
            if number is None:
                return
            try:
                results[number] = work(parts[number])
            except BaseException as error:  # noqa: BLE001 - raised again by the calling thread
                errors[number] = error

    helpers = [threading.Thread(target=run, name="omnigraph-part") for _ in range(min(threads, len(parts)) - 1)]
    try:
        for helper in helpers:
            with suppress(RuntimeError):  # no more threads: the others do the work
                helper.start()
        run()
    except BaseException as error:  # noqa: BLE001 - an interrupt between two parts: helpers end with the part they run
        errors[-1] = error
    for helper in helpers:
        if helper.ident is not None:
            helper.join()
    if errors:
        raise errors[min(errors)]
    return [results[number] for number in range(len(parts))]


def split_rows(rows: int, budget: Budget) -> list[slice]:
    """Return slices that cover this number of rows: one for each thread, but none of few rows."""
    parts = max(1, min(budget.threads, rows // max(MIN_PARALLEL_ROWS, 1)))
    bounds = [rows * number // parts for number in range(parts + 1)]
    return [slice(begin, end) for begin, end in pairwise(bounds)]


def split_chunks(rows: int, budget: Budget) -> list[slice]:
    """Return slices of at most `MAX_CHUNK_ROWS` that cover this number of rows, some for each thread."""
    chunk = max(1, min(MAX_CHUNK_ROWS, -(-rows // budget.threads) if rows >= MIN_PARALLEL_ROWS else rows))
    return [slice(begin, min(begin + chunk, rows)) for begin in range(0, rows, chunk)]


def sort_integers(values: NDArray[np.int64], threads: int) -> NDArray[np.int64]:
    """Return the values in ascending order, sorted by ranges on several threads."""
    parts = min(threads, len(values) // max(MIN_PARALLEL_ROWS, 1))
    if parts < 2:
        values.sort()
        return values
    sample = np.sort(values[:: max(1, len(values) // (_SAMPLES_PER_PART * parts))])
    pivots = sample[np.arange(1, parts) * len(sample) // parts].tolist()

    def sort_range(bounds: tuple[int | None, int | None]) -> NDArray[np.int64]:
        low, high = bounds
        mask = np.ones(len(values), np.bool_) if low is None else values >= low
        if high is not None:
            mask &= values < high
        inside = values[mask]
        inside.sort()
        return inside

    ranges = list(zip([None, *pivots], [*pivots, None], strict=True))
    return np.concatenate(run_threads(sort_range, ranges, threads))


def find_nth_values(values: NDArray[np.int64], low: int, high: int, budget: Budget) -> tuple[int, int]:
    """Return the values at two places, `low` up to `high`, of the ascending order, without sorting.

    A sample of many values gives a range around both places, and only the values inside are partitioned.
    """
    before, inside = 0, values
    if len(values) >= MIN_PARALLEL_ROWS:
        sample = np.sort(values[:: max(1, len(values) // _SELECTION_SAMPLES)])
        share = len(sample) / len(values)
        at = int(low * share) - _SAMPLE_MARGIN, int(high * share) + _SAMPLE_MARGIN
        floor = sample[0] if at[0] < 0 else sample[at[0]]
        ceiling = sample[-1] if at[1] >= len(sample) else sample[at[1]]

        def cut(part: slice) -> tuple[int, NDArray[np.int64]]:
            chunk = values[part]
            is_before = chunk < floor
            return int(np.count_nonzero(is_before)), chunk[~is_before & (chunk <= ceiling)]

        parts = map_parts(cut, split_chunks(len(values), budget), budget)
        before, inside = sum(count for count, _ in parts), np.concatenate([chunk for _, chunk in parts])
        if not before <= low <= high < before + len(inside):
            # The sample was off, which values with a pattern can cause.
            before, inside = 0, values
    ordered = np.partition(inside, (low - before, high - before))
    return int(ordered[low - before]), int(ordered[high - before])


def split_by_weight(ends: NDArray[np.int64], weight: int) -> list[slice]:
    """Return slices of rows that each weigh about `weight`; `ends` are the sums of the weights up to each row."""
    slices = []
    begin = 0
    while begin < len(ends):
        before = int(ends[begin - 1]) if begin else 0
        end = max(int(np.searchsorted(ends, before + weight, side="right")), begin + 1)
        slices.append(slice(begin, end))
        begin = end
    return slices
