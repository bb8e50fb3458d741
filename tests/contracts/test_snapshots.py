"""Nothing that users or other programs see changes by accident: it is stored as text in `snapshots/`.

After a change that is meant: `make snapshots`, and review the difference. What is held elsewhere, byte for byte, is not
stored here again:

- `--help` of every command, and exit codes: docs/reference/cli.md (tests/docs/test_pages.py)
- signatures and docstrings of public functions and methods: docs/reference/python.md (the same)
- codes, kinds and classes of errors: docs/reference/errors.md (the same); their messages are stored here
- routes, parameters and shapes in prose: docs/reference/http.md (tests/docs/test_http_reference.py); the OpenAPI
  document that programs read is stored here
- codes of `lint` and their meanings: docs/reference/diagnostics.md (tests/contracts/test_diagnostic_codes.py), and the
  messages of the languages: tests/corpus
- names of settings and environment variables: docs/reference/settings.md (tests/docs/test_completeness.py); their
  defaults are stored here
- that doors agree with each other: tests/contracts/test_doors.py; so one of them is enough here
- the demo: tests/demo; pasted sessions of the documentation: tests/docs/test_pages.py
"""

import json
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest

import http_reference
import snapshot_calls as calls
import snapshot_shapes as shapes
from door_calls import CALLS
from omnigraph.ops import cleanup_files
from snapshots import UPDATE, SnapshotDiffersError, SnapshotStore, join_entries

SHAPES: dict[str, Callable[[], str]] = {
    "errors.txt": lambda: join_entries(shapes.list_errors()),
    "findings.txt": lambda: join_entries(shapes.list_findings()),
    "openapi.json": lambda: json.dumps(http_reference.api(), indent=1, ensure_ascii=False),
    "python_classes.txt": lambda: join_entries(shapes.list_public_classes()),
    "settings.txt": lambda: join_entries(shapes.list_settings()),
    "stored.txt": lambda: join_entries(shapes.list_stored_shapes()),
}
OTHERS = {"cli_json.txt", "cli_text.txt", "cli_local_json.txt", "cli_local_text.txt", "http.txt", "mcp.txt"}


@pytest.fixture
def store(request: pytest.FixtureRequest) -> SnapshotStore:
    return SnapshotStore(is_update=request.config.getoption(UPDATE))


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMNIGRAPH_DURABILITY", "os")
    monkeypatch.setenv("COLUMNS", "100")
    # On a machine that is busy the calls take longer than manifests stay, and a cleanup would tell of them too.
    monkeypatch.setattr(cleanup_files, "MIN_GRACE", timedelta(days=1))
    for name in ("OMNIGRAPH_STORE", "OMNIGRAPH_TOKEN", "OMNIGRAPH_DEBUG", "NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize("name", SHAPES)
def test_shapes_are_as_stored(name: str, store: SnapshotStore) -> None:
    store.check(name, SHAPES[name]())


@pytest.mark.parametrize("form", ["json", "text"])
def test_commands_print_what_is_stored(
    form: str, store: SnapshotStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    door = calls.command_line(tmp_path / "home")
    monkeypatch.chdir(door.home)

    printed = join_entries(calls.run_calls(door, as_json=form == "json"))
    of_no_graph = join_entries(calls.run_local_calls(door.home, as_json=form == "json"))

    store.check(f"cli_{form}.txt", printed)
    store.check(f"cli_local_{form}.txt", of_no_graph)


def test_routes_answer_what_is_stored(store: SnapshotStore, tmp_path: Path) -> None:
    served = calls.serve(tmp_path / "home")

    answers = join_entries(calls.ask_routes(served))
    served.service.close()

    store.check("http.txt", answers)


def test_tools_of_agents_are_as_stored(store: SnapshotStore, tmp_path: Path) -> None:
    served = calls.serve(tmp_path / "home")

    answers = join_entries(calls.ask_tools(served))
    served.service.close()

    store.check("mcp.txt", answers)


def test_every_command_is_called_or_held_elsewhere() -> None:
    called = [*(call.words for call in CALLS), *calls.LOCAL_CALLS]
    leaves = set(calls.leaf_commands())

    assert {leaf for leaf in leaves if not any(words[: len(leaf)] == leaf for words in called)} == calls.NOT_CALLED


def test_no_stored_text_is_left_over(store: SnapshotStore) -> None:
    assert store.names() == SHAPES.keys() | OTHERS


@pytest.mark.parametrize("text", ["told\n", ""])
def test_a_changed_text_is_found_and_says_how_to_renew_it(tmp_path: Path, text: str) -> None:
    SnapshotStore(tmp_path, is_update=True).check("a.txt", "reported")

    with pytest.raises(SnapshotDiffersError, match=r"make snapshots(?s:.)*-reported"):
        SnapshotStore(tmp_path).check("a.txt", text)


def test_an_unchanged_text_passes_and_a_new_one_must_be_stored(tmp_path: Path) -> None:
    SnapshotStore(tmp_path, is_update=True).check("a.txt", "reported")

    SnapshotStore(tmp_path).check("a.txt", "reported")
    with pytest.raises(SnapshotDiffersError):
        SnapshotStore(tmp_path).check("b.txt", "reported")
