"""Who does the heavy work of maintenance: this process, or others that are told by a door."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from omnigraph.options import UpkeepOptions
from omnigraph.storage.dataset import Table
from omnigraph.storage.index_staging import IndexUntrainableError, segment_files
from omnigraph.storage.rewriting import Rewritten, files_of
from omnigraph.storage.staging import Witness
from omnigraph.storage.upkeep import SegmentBuild, build, compact, watched

Built: TypeAlias = Mapping[str, Sequence[str] | None]
"""By the name of each index its new segments, as text; None where there is nothing yet to learn from."""


class Hands(Protocol):
    """Does work on a table at a version, all of it invisible, and tells the witness of every file."""

    def compact(self, table: Table, groups: Sequence[tuple[int, ...]], witness: Witness) -> list[Rewritten]:
        """Write each group of fragments anew."""
        ...

    def build(self, table: Table, builds: Iterable[SegmentBuild], witness: Witness) -> Built:
        """Build segments, one or more for each that is asked for."""
        ...


@dataclass(frozen=True, slots=True)
class LocalHands:
    """This process, one piece after the other: Lance uses all cores for each."""

    options: UpkeepOptions

    def compact(self, table: Table, groups: Sequence[tuple[int, ...]], witness: Witness) -> list[Rewritten]:
        """See Hands."""
        done = []
        with watched(table, witness):
            for group in groups:
                done.append(compact(table, group, self.options))
                witness.made(files_of(table, done[-1]))
        return done

    def build(self, table: Table, builds: Iterable[SegmentBuild], witness: Witness) -> Built:
        """See Hands."""
        found: dict[str, Sequence[str] | None] = {}
        for one in builds:
            try:
                text = build(table, one)
            except IndexUntrainableError:
                found[one.name] = None
                continue
            witness.made(segment_files(table.path, text))
            found[one.name] = (text,)
        return found
