"""One server for the tests of a file; each test has a folder of the workspace, with a schema of its own."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from lsp.editor import Editor

SCHEMA = """// Who knows whom.
interface Named {
    name: String @index
}

node Person @description("Somebody who reads.") implements Named {
    age: I32?
    mood: enum(glad, sad)?
    text: String
    vec: Vector(4)? @embed("text")
    @index(age)
    @range(age, 0..150)
}

node Company implements Named {
    city: String @description("Where it is.")
}

edge Knows: Person -> Person {
    since: Date?
}

edge WorksAt: Person -> Company
"""


@pytest.fixture(scope="module")
def editor(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Editor]:
    """An editor with a server."""
    started = Editor(tmp_path_factory.mktemp("workspace"))
    yield started
    started.close()


@pytest.fixture
def folder(request: pytest.FixtureRequest, editor: Editor) -> Path:
    """A folder of the workspace with the schema, for this test alone."""
    name = Path(request.node.name)
    editor.write(f"{name}/schema.pg", SCHEMA)
    return name
