"""What the tasks of a load have rejected of rows that they checked by themselves, for the driver."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np

from omnigraph.spark.load.left_out_rows import LeftOutRows
from omnigraph.spark.load.load_task import SplitResult
from omnigraph.spark.load.split_check import SplitVerdict
from omnigraph.storage.column_hashing import Hashes


@dataclass(slots=True)
class Verdicts:
    """The verdicts of all splits; empty if the driver has checked all suspect rows."""

    by_split: Mapping[int, SplitVerdict] = field(default_factory=dict)

    @classmethod
    def from_results(cls, results: Iterable[SplitResult]) -> "Verdicts":
        """Collect the verdicts of a job."""
        return cls({result.split: result.verdict for result in results if result.verdict is not None})

    @property
    def gone(self) -> int:
        """The number of rejected nodes whose ids no other row has."""
        return sum(checked.gone for verdict in self.by_split.values() for checked in verdict.types.values())

    @property
    def gone_hashes(self) -> dict[str, Hashes]:
        """The hashes of the ids of these nodes, by type."""
        parts: dict[str, list[bytes]] = {}
        for verdict in self.by_split.values():
            for name, checked in verdict.types.items():
                parts.setdefault(name, []).append(checked.gone_hashes)
        return {name: np.frombuffer(b"".join(packed), np.uint64) for name, packed in parts.items()}

    def count_rejected(self, name: str) -> int:
        """Return the number of rejected rows of a type."""
        return sum(verdict.types[name].rejected for verdict in self.by_split.values() if name in verdict.types)

    def count_existing(self, name: str) -> int:
        """Return the number of rejected rows of a type whose ids are those of committed rows."""
        return sum(verdict.types[name].existing for verdict in self.by_split.values() if name in verdict.types)

    def list_left_out(self) -> dict[tuple[int, str], LeftOutRows]:
        """Return the rejected rows by split and type."""
        return {
            (split, name): checked.left_out
            for split, verdict in self.by_split.items()
            for name, checked in verdict.types.items()
        }

    def list_objects(self) -> list[str]:
        """Return the keys of all objects that the tasks have kept."""
        objects: list[str] = []
        for verdict in self.by_split.values():
            objects += verdict.rejects.objects
            objects += [checked.left_out.key for checked in verdict.types.values() if checked.left_out.key is not None]
        return objects
