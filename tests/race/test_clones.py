"""Processes that make a clone at one place at the same time: one does, the others are told, and it is whole."""

import time
from collections import Counter
from pathlib import Path

from cloning import branched, opened, readable, tree
from zygote import Zygote

ROUNDS = 4
TOLD = {"clone_busy", "place_taken"}


def test_one_of_several_processes_makes_the_clone(tmp_path: Path, zygote: Zygote) -> None:
    source = branched(tmp_path / "source").uri
    expected = readable(opened(source))

    for number in range(ROUNDS):
        target = str(tmp_path / f"c{number}")
        job = {"source": source, "target": target, "at": time.time() + 0.2}
        started = [zygote.start("race.clone_jobs:clone", job) for _ in range(3)]
        ended = [zygote.wait(pid) for pid in started]

        assert [one.error for one in ended] == [None] * 3
        outcomes = Counter(one.result for one in ended)
        assert outcomes["done"] == 1
        assert outcomes.keys() <= {"done", *TOLD}
        assert readable(opened(target)) == expected
        assert [path for path in tree(target) if path.startswith("__recovery")] == []
