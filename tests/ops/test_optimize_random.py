"""Whatever is written before and while a table is optimised, afterwards it says what the writes alone would say."""

import shutil
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from omnigraph.ops.optimize import OptimizeCall, optimize
from omnigraph.ops.optimize_table import UpkeepCall
from omnigraph.ops.session import Session
from omnigraph.ops.write_tables import TableWrite, write_tables
from omnigraph.options import UpkeepOptions
from omnigraph.runtime import Runtime
from property_profiles import profile
from upkeep_calls import EAGER
from worlds import FAST, new_world, reopened, rows, runtime

KEY = "node:A"
IDS = [f"i{number}" for number in range(12)]
CALL = OptimizeCall(types=("A",), upkeep=UpkeepCall(actor="test"))


@dataclass(frozen=True)
class Write:
    """A commit: these rows are put, those deleted, or all others replaced."""

    kind: str
    ids: tuple[str, ...]
    value: int

    def apply(self, session: Session, held: dict[str, int]) -> None:
        """Commit it, and do the same to what is held."""
        values = dict.fromkeys(self.ids, self.value)
        match self.kind:
            case "upsert":
                write = TableWrite(table_key=KEY, upsert=rows(values))
                held |= values
            case "delete":
                write = TableWrite(table_key=KEY, delete=list(self.ids))
                for one in self.ids:
                    held.pop(one, None)
            case _:
                write = TableWrite(table_key=KEY, overwrite=rows(values))
                held.clear()
                held |= values
        write_tables(session, [write], operation="w", actor="x")


@dataclass
class Rounds:
    """Faults that commit something in each round of a publish, just before the swap, which is lost by that."""

    session: Session
    held: dict[str, int]
    left: list[list[Write]]

    def reach(self, point: str) -> None:
        """Called by the publisher."""
        if point == "publish.flushed" and self.left:
            for write in self.left.pop(0):
                write.apply(self.session, self.held)


def content(session: Session) -> dict[str, int]:
    """What the table says; by a scan, and by its index, which must agree."""
    table = session.open_tables(session.resolve_snapshot()).open_table(KEY)
    found = table.scan(["id", "v"]).to_pylist()
    by_index = table.find_rows("id", IDS, ["id", "v"]).to_pylist()
    assert sorted(map(repr, by_index)) == sorted(map(repr, found))
    assert session.resolve_snapshot().pin(KEY).rows == len(found)
    held = {one["id"]: one["v"] for one in found}
    assert len(held) == len(found)
    return held


kinds = st.sampled_from(["upsert", "upsert", "upsert", "delete", "delete", "overwrite"])
writes = st.builds(
    Write, kinds, st.lists(st.sampled_from(IDS), min_size=1, max_size=6, unique=True).map(tuple), st.integers(0, 99)
)
policies = st.sampled_from([EAGER, replace(EAGER, fragment_rows=4), replace(EAGER, merged_fragments=99)])


def compare(
    place: Path, before: list[Write], rounds: list[list[Write]], after: list[Write], policy: UpkeepOptions
) -> None:
    """Write, optimise while others write, write and optimise again; look after each."""
    shutil.rmtree(place, ignore_errors=True)
    options = replace(FAST, upkeep=policy)
    session, held = new_world(place, options), dict[str, int]()
    for write in before:
        write.apply(session, held)
    other = reopened(session, options)
    other.store.runtime = Runtime(options=options, faults=Rounds(session, held, rounds))

    done = optimize(other, CALL)
    assert not done.has_failed, done
    assert content(session) == held
    for write in after:
        write.apply(session, held)
        assert content(session) == held
    optimize(reopened(session, options), CALL)

    assert content(reopened(session)) == held
    assert optimize(reopened(session, options), CALL).tables[0].commit_id is None, "nothing is left to do"


def test_an_optimised_table_says_what_was_written(tmp_path: Path) -> None:
    @settings(profile(25))
    @given(
        st.lists(writes, min_size=1, max_size=6),
        st.lists(st.lists(writes, max_size=2), max_size=3),
        st.lists(writes, max_size=2),
        policies,
    )
    def check(before: list[Write], rounds: list[list[Write]], after: list[Write], policy: UpkeepOptions) -> None:
        compare(tmp_path / "g", before, rounds, after, policy)

    check()


@pytest.mark.soak
def test_an_optimised_table_says_what_was_written_for_long(tmp_path: Path) -> None:
    @settings(profile(1_500), derandomize=False)
    @given(
        st.lists(writes, min_size=1, max_size=12),
        st.lists(st.lists(writes, max_size=3), max_size=5),
        st.lists(writes, max_size=4),
        policies,
    )
    def check(before: list[Write], rounds: list[list[Write]], after: list[Write], policy: UpkeepOptions) -> None:
        compare(tmp_path / "g", before, rounds, after, policy)

    check()


def test_the_number_of_a_fragment_that_is_gone_is_not_given_again(tmp_path: Path) -> None:
    """An index does not forget the numbers of fragments that it covered: rows under one of these were not found."""
    first = [Write("upsert", ("i0", "i1", "i2"), 1), Write("upsert", ("i2", "i3", "i4", "i5", "i6", "i7"), 2)]
    gone = [Write("delete", ("i0", "i1"), 0), Write("delete", ("i3",), 0)]

    compare(tmp_path / "g", first, [], gone, EAGER)


def test_a_table_that_is_never_left_alone_is_optimised_all_the_same(tmp_path: Path) -> None:
    session, held = new_world(tmp_path / "g"), dict[str, int]()
    for number in range(6):
        Write("upsert", (f"i{number}",), number).apply(session, held)
    rounds = [[Write("upsert", (f"i{number % 6}",), 100 + number)] for number in range(30)]
    other = reopened(session, replace(FAST, upkeep=EAGER))
    other.store.runtime = Runtime(options=other.runtime.options, faults=Rounds(session, held, rounds))

    done = optimize(other, CALL)

    assert rounds == [], "it lost thirty rounds"
    assert done.tables[0].commit_id is not None
    assert done.tables[0].fragments_removed == 6
    assert content(session) == held
    assert runtime().options.publish_rounds < 30
