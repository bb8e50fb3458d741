"""Every file that a process opens, makes, renames or removes while it uses hostile graphs, as the kernel is asked."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from damaging import made
from hostile_graphs import HOSTILE, set_up

STRACE = shutil.which("strace")
TRACED = (
    "open,openat,openat2,creat,unlink,unlinkat,rename,renameat,renameat2,mkdir,mkdirat,rmdir,link,linkat,"
    "symlink,symlinkat,truncate,chmod,fchmodat,utimensat,mknod,mknodat"
)
OWN = (
    "/proc/",
    "/sys/",
    "/dev/null",
    "/dev/urandom",
    "/etc/l",
    "/etc/ssl/",
    "/lib",
    "/usr/lib",
    "/usr/share/locale",
    "/usr/share/zoneinfo",
)
"""What an interpreter and the libraries of the system read of a machine."""
LEADING_OUT = (
    "a sidecar names a file behind a linked table",
    "the tables are a link",
    "a data file is a link",
    "the manifest is a link",
    "sidecars are a link",
    "derived files are a link",
)
NAMED = re.compile(r'(?:(?:AT_FDCWD|\d+)<([^>]*)>, )?"((?:[^"\\]|\\.)*)"')
OPENED = re.compile(r"= \d+<([^>]*)>")


@pytest.fixture(scope="module")
def pristine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("pristine") / "graph"
    made(root)
    return root


def traced_paths(places: Sequence[Path], log: Path, temporary: Path) -> Iterator[str]:
    """Use the hostile graphs of some directories; yield every path that the process has named or opened."""
    assert STRACE is not None
    temporary.mkdir()
    modules = os.pathsep.join([str(Path(__file__).parents[1]), *filter(None, sys.path)])
    script = Path(__file__).parents[1] / "hostile_graphs.py"
    environment = {**os.environ, "PYTHONPATH": modules, "TMPDIR": str(temporary), "LANCE_LOG": "error"}
    tracing = [STRACE, "-f", "--seccomp-bpf", "-y", "-qq", "-o", str(log), "-e", f"trace={TRACED}"]
    subprocess.run(
        [*tracing, sys.executable, str(script), *map(str, places)],
        env={**environment, "PYTHONDONTWRITEBYTECODE": "1"},
        cwd=temporary,
        check=True,
        timeout=500,
        stderr=subprocess.DEVNULL,
    )
    with log.open(encoding="utf-8", errors="replace") as lines:
        for line in lines:
            for directory, path in NAMED.findall(line):
                yield os.path.normpath(os.path.join(directory or temporary, path))  # noqa: PTH118 - may be absolute
            yield from OPENED.findall(line)


def is_within(path: str, root: str) -> bool:
    return path == root or path.startswith(root.rstrip("/") + "/")


def use_hostile_graphs(names: Sequence[str], pristine: Path, tmp_path: Path) -> None:
    places = [tmp_path / f"case{number}" for number in range(len(names))]
    for name, place in zip(names, places, strict=True):
        place.mkdir()
        set_up(name, pristine, place)
    temporary = tmp_path / "temporary"
    repository = Path(__file__).parents[2]
    code = [repository / "src", repository / "tests", sys.prefix, Path(sys.prefix).resolve(), sys.base_prefix]
    code += [path for path in sys.path if path]
    ours = [*(place / part for place in places for part in ("graph", "clone")), temporary]
    allowed = [str(path) for path in (*ours, *code)]
    paths = set(traced_paths(places, tmp_path / "trace", temporary))

    strange = [path for path in paths if not path.startswith(OWN) and not any(is_within(path, one) for one in allowed)]
    ancestors = {str(parent) for path in ours for parent in path.parents}

    assert any(is_within(path, str(places[-1] / "graph")) for path in paths)
    assert sorted(set(strange) - ancestors) == []


@pytest.mark.skipif(STRACE is None, reason="there is no strace; the other tests watch the directory outside")
def test_no_path_outside_is_opened_or_changed(pristine: Path, tmp_path: Path) -> None:
    use_hostile_graphs(LEADING_OUT, pristine, tmp_path)


@pytest.mark.soak
@pytest.mark.skipif(STRACE is None, reason="as above")
def test_no_path_outside_of_any_hostile_graph_is_opened_or_changed(pristine: Path, tmp_path: Path) -> None:
    use_hostile_graphs(tuple(HOSTILE), pristine, tmp_path)
