"""What the C library does with freed memory, in a process of its own."""

import subprocess
import sys

import pytest

READS = """
import resource
from omnigraph.runtime_memory import reuse_batch_memory
keeps = reuse_batch_memory()
def faults():
    for _ in range(50):
        batch = [b"x" * 4_000_000 for _ in range(4)]
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt
before = faults()
print(keeps, faults() - before)
"""


def read_batches(**variables: str) -> tuple[bool, int]:
    """Whether memory is kept, and how many pages of it were asked for again, after the first batches."""
    done = subprocess.run([sys.executable, "-c", READS], env=variables, capture_output=True, text=True, check=True)
    keeps, pages = done.stdout.split()
    return keeps == "True", int(pages)


@pytest.mark.skipif(sys.platform != "linux", reason="of glibc")
def test_the_memory_of_a_batch_is_used_for_the_next() -> None:
    keeps, pages = read_batches()

    assert keeps
    assert pages < 50_000


@pytest.mark.skipif(sys.platform != "linux", reason="of glibc")
def test_what_the_environment_says_of_memory_stays() -> None:
    keeps, pages = read_batches(MALLOC_MMAP_THRESHOLD_="1000000")

    assert not keeps
    assert pages > 100_000
