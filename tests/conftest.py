"""Settings that every test runs under."""

import fcntl
import gc
import os
import shutil
import sys
import tempfile
from collections.abc import Generator, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import settings
from xdist.scheduler import LoadScopeScheduling  # type: ignore[import-untyped]  # it gives no types

from omnigraph.options import Maintenance, Options
from zygote import Zygote

UPDATE = "--snapshot-update"

settings.register_profile("repeatable", derandomize=True, deadline=None, database=None)
settings.load_profile("repeatable")

# Many tests count commits, fragments and requests: writers leave small fragments alone, unless a test asks for it.
os.environ["OMNIGRAPH_MAINTENANCE"] = Maintenance.OFF.value
Options.__init__.__kwdefaults__["maintenance"] = Maintenance.OFF  # type: ignore[index]  # a dataclass has them

# Whoever starts a Spark in a test starts the one that tests/spark shares.
os.environ["OMNIGRAPH_SPARK_MASTER"] = "local[2,2]"
# No JVM of a test lives long enough to make good for its second compiler, or has garbage for more than one thread.
# With one compiler a JVM has little room for what was compiled, and would clear it up all the time.
os.environ.setdefault("JAVA_TOOL_OPTIONS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:ReservedCodeCacheSize=240m")

# The many processes of the tests import the same modules: what one of them has compiled, the others read.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

MEMORY = Path("/dev/shm")  # noqa: S108 - a directory of its own is made in it
PLACE, SIGN_OF_LIFE = "omnigraph-tests-", "alive"
FILES = pytest.StashKey[Path]()
FILES_BYTES, SPARE_BYTES = 4 << 30, 4 << 30
"""More than the files of a run come to, and what must be free beside them."""

BY_FILE = (
    "tests/cost/",
    "tests/crash/",
    "tests/race/",
    "tests/s3/",
    "tests/server/",
    "tests/cli/test_server_mode.py",
    "tests/commit/test_branches_gone.py",
    "tests/commit/test_foreign.py",
    "tests/commit/test_staleness.py",
    "tests/contracts/test_a_command_is_light.py",
    "tests/contracts/test_budgets.py",
    "tests/contracts/test_doors.py",
    "tests/contracts/test_imports.py",
    "tests/contracts/test_vocabulary.py",
    "tests/corpus/test_same_plan.py",
    "tests/demo/",
    "tests/engine/test_search_ranking.py",
    "tests/engine/test_table_reader.py",
    "tests/engine/test_three_way.py",
    "tests/integrations/test_typescript_client.py",
    "tests/ops/test_merge.py",
    "tests/packaging/",
)
"""Where the tests of a file belong to one process: they share a server, a long history or what takes long to make."""

OWN_SPARK = tuple(
    f"tests/spark/test_{name}.py"
    for name in ("choice", "cluster", "fresh_machine", "interrupted", "ledger", "pieces", "splits")
)
"""Tests of Spark that start one of their own, or none: they need not wait for those that share one."""


class Together(LoadScopeScheduling):  # type: ignore[misc]  # xdist gives no types
    """Each test by itself to whichever process is free, but those of one Spark, or of one file of some, to one process.

    The marks of `--dist loadgroup` have no effect with pytest 9.2, which makes ids of tests in another way.
    """

    def _split_scope(self, nodeid: str) -> str:
        path = nodeid.partition("::")[0]
        if path.startswith((*BY_FILE, *OWN_SPARK)):
            return path
        # One browser, one build of the page and one server for all of them.
        if path.startswith("tests/explorer/"):
            return "explorer"
        return "spark" if path.startswith("tests/spark/") or "spark.md]" in nodeid else nodeid

    def mark_test_complete(self, node: object, item_index: int, duration: float = 0) -> None:
        """Forget a scope that is done: xdist counts what is left in every scope that a process ever had."""
        super().mark_test_complete(node, item_index, duration)
        scopes = self.assigned_work[node]
        scope = self._split_scope(self.registered_collections[node][item_index])
        if all(scopes[scope].values()):
            del scopes[scope]


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option that stores what users see anew, see tests/contracts/test_snapshots.py."""
    parser.addoption(UPDATE, action="store_true", help="store the texts of tests/contracts/snapshots again")


@pytest.hookimpl(tryfirst=True)
def pytest_xdist_auto_num_workers() -> int | None:
    """One process more than there are processors: each waits now and then, for a lease, a child or a server."""
    return None if "PYTEST_XDIST_AUTO_NUM_WORKERS" in os.environ else (os.cpu_count() or 1) + 1


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Keep the files of a run in memory where there is room: they are flushed as always, but nobody waits for a disk.

    Not the files of the long profiles, which are large.
    """
    if config.option.markexpr != "not soak" or "TMPDIR" in os.environ or not has_room():
        return
    for left in MEMORY.glob(f"{PLACE}*/{SIGN_OF_LIFE}"):
        with suppress(OSError), left.open("ab") as sign:  # it is somebody else's, or just being removed
            fcntl.flock(sign, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(left.parent, ignore_errors=True)
    place = config.stash[FILES] = Path(tempfile.mkdtemp(prefix=PLACE, dir=MEMORY))
    sign = (place / SIGN_OF_LIFE).open("wb")
    fcntl.flock(sign, fcntl.LOCK_EX)
    config.add_cleanup(sign.close)
    os.environ["TMPDIR"] = tempfile.tempdir = str(place)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Look for no garbage among the thousands of tests, which stay: not while they are collected, and not later."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """What tests that failed have left may be looked at until the next run."""
    place = session.config.stash.get(FILES, None)
    if place is not None and exitstatus == pytest.ExitCode.OK:
        session.config.add_cleanup(lambda: shutil.rmtree(place, ignore_errors=True))


def has_room() -> bool:
    """Whether there is a file system in memory, with room in both, where programs may run."""
    if not sys.platform.startswith("linux") or not os.access(MEMORY, os.W_OK):
        return False
    found = os.statvfs(MEMORY)
    memory = dict(line.split(":") for line in Path("/proc/meminfo").read_text("ascii").splitlines())
    free = int(memory["MemAvailable"].split()[0]) << 10
    with suppress(OSError, ValueError):  # there is no such limit, or it is the word `max`
        limit, used = (int(Path("/sys/fs/cgroup", f"memory.{name}").read_text("ascii")) for name in ("max", "current"))
        free = min(free, limit - used)
    has_files = found.f_bavail * found.f_frsize >= FILES_BYTES and free >= FILES_BYTES + SPARE_BYTES
    return has_files and not found.f_flag & os.ST_NOEXEC


def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> Together:
    """What hands out the tests."""
    return Together(config, log)


@pytest.fixture(scope="module")
def zygote() -> Iterator[Zygote]:
    """A process that forks the children of a test, see `zygote.py`."""
    zygote = Zygote()
    yield zygote
    zygote.close()


@pytest.fixture
def with_sidecars(monkeypatch: pytest.MonkeyPatch) -> None:
    """No write counts as small: one of several tables has a sidecar, as a large one has."""
    from omnigraph.ops import write_tables

    monkeypatch.setattr(write_tables, "MAX_KEPT_ROWS", -1)
