"""Maintenance that runs all the time beside other processes: nothing lost, nothing twice, nobody fails."""

from pathlib import Path

from omnigraph.ops.open import open_session
from race.checker import Txn, anomalies
from worlds import runtime, seeded_world, state
from zygote import Zygote


def test_no_write_fails_because_of_maintenance(tmp_path: Path, zygote: Zygote) -> None:
    uri = seeded_world(tmp_path / "g").uri
    jobs = [{"uri": uri, "table": table, "name": f"w-{table}", "times": 15} for table in ("node:A", "node:B")]

    writers = [zygote.start("race.upkeep_jobs:churn", job) for job in jobs]
    until = tmp_path / "enough"
    upkeep = [zygote.start("race.upkeep_jobs:keep_up", {"uri": uri, "until": str(until)}) for _ in range(2)]
    ended = [zygote.wait(pid) for pid in writers]
    until.touch()
    ended += [zygote.wait(pid) for pid in upkeep]

    assert [one.error for one in ended] == [None] * 4
    assert [one.result[0] for one in ended[:2]] == [0, 0]
    assert all((one.result["failed"], one.result["given up"]) == (0, 0) for one in ended[2:])
    assert sum(one.result["rewritten"] for one in ended[2:]) > 10
    found = state(open_session(uri, is_read_only=True, runtime=runtime()))
    for table, one in zip(("node:A", "node:B"), ended, strict=False):
        assert [sum(found[table].values()) - 10, len(found[table]) - 4] == one.result[1:]


def test_histories_beside_maintenance_are_strictly_serializable(tmp_path: Path, zygote: Zygote) -> None:
    uri = str(tmp_path / "g")
    zygote.run("race.jobs:new_lists", {"uri": uri})
    jobs = [{"uri": uri, "name": f"p{n}t", "times": 30, "seed": n, "bug": None} for n in range(3)]

    writers = [zygote.start("race.jobs:list_append", job) for job in jobs]
    until = tmp_path / "enough"
    upkeep = zygote.start("race.upkeep_jobs:keep_up", {"uri": uri, "until": str(until)})
    ended = [zygote.wait(pid) for pid in writers]
    until.touch()
    kept = zygote.wait(upkeep)
    final = zygote.run("race.jobs:lists", {"uri": uri})

    assert [one.error for one in (*ended, kept, final)] == [None] * 5
    assert kept.result["commits"] > 0
    assert anomalies([Txn(**entry) for one in ended for entry in one.result], final.result) == []
