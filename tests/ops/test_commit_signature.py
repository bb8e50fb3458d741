"""Who may sign a commit."""

from pathlib import Path

import pytest

from omnigraph.lang.source import Source
from omnigraph.ops.commit_signature import MAX_BYTES, ActorRefusedError, CommitTextTooLongError
from omnigraph.ops.create import create
from omnigraph.ops.write_tables import TableWrite, write_tables
from worlds import rows, runtime, seeded_world


@pytest.mark.parametrize("actor", ["", "  ", "omnigraph:recovery", "omnigraph:", "a\nb", "\x1b[31m"])
def test_nobody_signs_without_a_name_or_with_the_engines_own(actor: str, tmp_path: Path) -> None:
    session = seeded_world(tmp_path / "g")
    before = session.head().snapshot.commit.id

    with pytest.raises(ActorRefusedError):
        write_tables(session, [TableWrite(table_key="node:A", append=rows({"n": 1}))], operation="w", actor=actor)
    with pytest.raises(ActorRefusedError):
        create(str(tmp_path / "new"), Source("node A {}"), actor=actor, runtime=runtime())

    assert session.head().snapshot.commit.id == before
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("what", MAX_BYTES)
def test_a_commit_keeps_texts_up_to_a_length(what: str, tmp_path: Path) -> None:
    session = seeded_world(tmp_path / "g")
    write = TableWrite(table_key="node:A", append=rows({"n": 1}))
    most = MAX_BYTES[what]

    def signed(text: str) -> dict[str, str]:
        return {"actor": "x", what.replace(" ", "_"): text}

    with pytest.raises(CommitTextTooLongError, match=f"the {what} has {most + 1} bytes.* at most {most};"):
        write_tables(session, [write], operation="w", **signed("é" * (most // 2) + "x"))  # type: ignore[arg-type]  # texts, all of them
    done = write_tables(session, [write], operation="w", **signed("é" * (most // 2)))  # type: ignore[arg-type]  # as above

    assert done is not None
