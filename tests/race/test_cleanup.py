"""Cleanups that run all the time beside other processes: nothing lost, nobody fails, and garbage goes."""

from pathlib import Path

from collecting import DAY, pass_time
from omnigraph.ops.open import open_session
from worlds import runtime, seeded_world, state
from zygote import Zygote


def test_nobody_fails_because_of_cleanups(tmp_path: Path, zygote: Zygote) -> None:
    uri = seeded_world(tmp_path / "g").uri
    zygote.run("race.upkeep_jobs:churn", {"uri": uri, "table": "node:C", "name": "before", "times": 3})
    pass_time(uri, DAY)
    until = tmp_path / "enough"
    watch = {"uri": uri, "until": str(until)}

    writers = [
        zygote.start("race.upkeep_jobs:churn", {"uri": uri, "table": table, "name": "w", "times": 5})
        for table in ("node:A", "node:B")
    ]
    writers.append(zygote.start("race.cleanup_jobs:branches_and_tags", {"uri": uri, "name": "b", "times": 4}))
    upkeep = [zygote.start("race.upkeep_jobs:keep_up", watch)]
    upkeep += [zygote.start("race.cleanup_jobs:clean_up", watch) for _ in range(2)]
    ended = [zygote.wait(pid) for pid in writers]
    until.touch()
    ended += [zygote.wait(pid) for pid in upkeep]

    assert [one.error for one in ended] == [None] * 6
    assert [ended[0].result[0], ended[1].result[0], ended[2].result] == [0, 0, []]
    assert (ended[3].result["failed"], ended[3].result["given up"]) == (0, 0)
    assert sum(one.result["bytes"] for one in ended[4:]) > 0
    found = state(open_session(uri, is_read_only=True, runtime=runtime()))
    for table, one in zip(("node:A", "node:B"), ended, strict=False):
        assert [sum(found[table].values()) - 10, len(found[table]) - 4] == one.result[1:]
