"""The programs on the pages about reading and streaming print what the pages show."""

import re
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"^```(python|text)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("name", ["analyse-with-spark.md", "stream.md"])
def test_the_programs_of_a_page_print_what_it_shows(
    name: str,
    tmp_path: Path,
    spark: SparkSession,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert spark is not None
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}

    blocks = BLOCK.findall((ROOT / "docs" / "how-to" / name).read_text(encoding="utf-8"))

    assert len(blocks) >= 4
    for kind, text in blocks:
        if kind == "python":
            exec(compile(text, name, "exec"), names)  # noqa: S102 - our own page
        else:
            assert capsys.readouterr().out == text
