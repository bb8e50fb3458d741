"""The container files are linted, run as nobody special, and start what there is."""

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from omnigraph.cli.main import main

ROOT = Path(__file__).parents[2]
FILE = ROOT / "containers" / "Containerfile"
SPARK_FILE = FILE.with_name("Containerfile.spark")
HADOLINT = Path(sys.executable).with_name("hadolint")


def lint(text: str) -> list[str]:
    """The rules that hadolint says are broken."""
    config = ROOT / "containers" / "hadolint.yaml"
    done = subprocess.run(
        [str(HADOLINT), "--config", str(config), "--format", "json", "-"],
        input=text,
        capture_output=True,
        text=True,
        check=False,
    )
    return [finding["code"] for finding in json.loads(done.stdout)]


@pytest.mark.parametrize("file", [FILE, SPARK_FILE])
def test_hadolint_finds_nothing(file: Path) -> None:
    assert lint(file.read_text(encoding="utf-8")) == []


def test_the_image_for_spark_has_the_spark_of_the_lock() -> None:
    text = SPARK_FILE.read_text(encoding="utf-8")
    (locked,) = re.findall(r"^pyspark==(\S+)", (ROOT / "requirements.lock").read_text(encoding="utf-8"), re.MULTILINE)

    assert f"FROM docker.io/apache/spark:{locked} AS spark" in text
    assert '"${wheel}[spark]"' in text
    assert re.search(r"^USER (?!0|root)", text, re.MULTILINE)


@pytest.mark.parametrize(
    "before, after, rule",
    [
        ("python:3.13-slim-bookworm AS", "python:latest AS", "DL3007"),
        ("docker.io/library", "registry.example.org/library", "DL3026"),
        ('SHELL ["/bin/bash", "-o", "pipefail", "-c"]', "", "DL4006"),
        ("WORKDIR /srv/omnigraph", "WORKDIR home", "DL3000"),
    ],
)
def test_a_planted_mistake_is_found(before: str, after: str, rule: str) -> None:
    assert rule in lint(FILE.read_text(encoding="utf-8").replace(before, after))


def test_what_it_installs_and_runs_exists() -> None:
    text = FILE.read_text(encoding="utf-8")
    (extras,) = re.findall(r'"\$\{wheel\}\[([a-z,]+)\]"', text)
    (command,) = re.findall(r"^CMD (\[.*\])$", text, re.MULTILINE)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]

    assert {*extras.split(",")} <= project["optional-dependencies"].keys()
    assert re.search(r"^USER (?!0|root)", text, re.MULTILINE)
    name, *options = json.loads(command)
    assert main([name, "--help"]) == 0
    assert [option for option in options if option.startswith("--")] == ["--config", "--bind"]
