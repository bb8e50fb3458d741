"""Who may sign a commit."""

from pathlib import Path

import pytest

from omnigraph.lang.source import Source
from omnigraph.ops.actors import ActorRefusedError
from omnigraph.ops.create import create
from omnigraph.ops.write import TableWrite, write_tables
from worlds import rows, runtime, seeded_world


@pytest.mark.parametrize("actor", ["", "  ", "omnigraph:recovery", "omnigraph:"])
def test_nobody_signs_without_a_name_or_with_the_engines_own(actor: str, tmp_path: Path) -> None:
    session = seeded_world(tmp_path / "g")
    before = session.head().snapshot.commit.id

    with pytest.raises(ActorRefusedError):
        write_tables(session, [TableWrite(table_key="node:A", append=rows({"n": 1}))], operation="w", actor=actor)
    with pytest.raises(ActorRefusedError):
        create(str(tmp_path / "new"), Source("node A {}"), actor=actor, runtime=runtime())

    assert session.head().snapshot.commit.id == before
    assert not (tmp_path / "new").exists()
