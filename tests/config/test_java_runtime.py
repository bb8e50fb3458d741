"""Java is found where people have it, tried before it is used, and asked for in clear words."""

import os
import stat
from pathlib import Path

import pytest

from omnigraph.config.spark import SparkSettings, read_spark_settings
from omnigraph.spark.session.java_runtime import JavaMissingError, find_bundled_java, find_java, set_variables


def fake_java(home: Path, release: str, *, has_vectors: bool = True) -> Path:
    """A program that answers as Java of that release."""
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True)
    refusal = "" if has_vectors else 'case "$1" in --add-modules*) echo "module not found" >&2; exit 1;; esac\n'
    program.write_text(f"#!/bin/sh\n{refusal}echo 'openjdk version \"{release}\" 2025-04-15' >&2\n", encoding="utf-8")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return program


def test_java_home_comes_first(tmp_path: Path) -> None:
    mine, other = fake_java(tmp_path / "mine", "21.0.1"), fake_java(tmp_path / "other", "17.0.15")

    found = find_java({"JAVA_HOME": str(tmp_path / "mine"), "PATH": str(other.parent)}, None)

    assert (found.program, found.release, found.is_bundled) == (mine, 21, False)


def test_the_path_comes_next(tmp_path: Path) -> None:
    program = fake_java(tmp_path, "17.0.15")

    assert find_java({"PATH": str(program.parent)}, None).program == program


def test_the_bundled_one_comes_last(tmp_path: Path) -> None:
    bundled = fake_java(tmp_path, "21.0.8", has_vectors=False)

    found = find_java({"PATH": ""}, bundled)

    assert (found.program, found.is_bundled, found.has_vectors) == (bundled, True, False)


@pytest.mark.parametrize("release", ["1.8.0_402", "11.0.2"])
def test_an_old_one_is_passed_over_for_the_bundled_one(tmp_path: Path, release: str) -> None:
    old, bundled = fake_java(tmp_path / "old", release), fake_java(tmp_path / "new", "21.0.8")

    assert find_java({"PATH": str(old.parent)}, bundled).program == bundled


@pytest.mark.parametrize("release, shown", [("1.8.0_402", "Java 8"), ("11.0.2", "Java 11")])
def test_only_an_old_one_is_told_with_its_release(tmp_path: Path, release: str, shown: str) -> None:
    old = fake_java(tmp_path, release)

    with pytest.raises(JavaMissingError, match=f"needs a Java runtime, 17 or newer, but `.*java` is {shown}"):
        find_java({"PATH": str(old.parent), "JAVA_HOME": ""}, None)


def test_none_at_all_is_told_with_the_way_out(tmp_path: Path) -> None:
    with pytest.raises(JavaMissingError) as caught:
        find_java({"PATH": str(tmp_path)}, None)

    assert "omnigraph[jvm]" in str(caught.value)
    assert "apt-get install openjdk-17-jre-headless" in str(caught.value)


def test_a_java_home_that_leads_nowhere_is_an_error(tmp_path: Path) -> None:
    program = fake_java(tmp_path, "17.0.15")

    with pytest.raises(JavaMissingError, match="which has no bin/java"):
        find_java({"JAVA_HOME": str(tmp_path / "gone"), "PATH": str(program.parent)}, program)


def test_a_stub_that_only_complains_is_no_java(tmp_path: Path) -> None:
    stub = tmp_path / "java"
    stub.write_text("#!/bin/sh\necho 'Unable to locate a Java Runtime.' >&2\nexit 1\n", encoding="utf-8")
    stub.chmod(0o755)

    with pytest.raises(JavaMissingError, match="does not start"):
        find_java({"PATH": str(tmp_path)}, stub)


def test_the_bundled_one_is_installed_here_and_starts() -> None:
    program = find_bundled_java()

    assert program is not None
    assert find_java({"PATH": ""}, program).is_bundled


def test_variables_are_as_they_were_afterwards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMNIGRAPH_A", "before")
    monkeypatch.delenv("OMNIGRAPH_B", raising=False)

    with set_variables({"OMNIGRAPH_A": "inside", "OMNIGRAPH_B": "inside"}):
        inside = os.environ["OMNIGRAPH_A"], os.environ["OMNIGRAPH_B"]

    assert inside == ("inside", "inside")
    assert (os.environ["OMNIGRAPH_A"], os.environ.get("OMNIGRAPH_B")) == ("before", None)


def test_the_environment_says_where_spark_runs() -> None:
    given = {"OMNIGRAPH_SPARK_MASTER": "yarn", "PYSPARK_PYTHON": "/bin/python3", "PYSPARK_GATEWAY_PORT": "5"}

    assert read_spark_settings(given) == SparkSettings(master="yarn", python="/bin/python3", is_submitted=True)
    assert read_spark_settings({}) == SparkSettings()
