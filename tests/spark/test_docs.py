"""The programs on the pages about Spark run."""

import re
from pathlib import Path

import pytest

import omnigraph as og

ROOT = Path(__file__).parents[2]
PROGRAM = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.mark.usefixtures("spark")
def test_the_program_about_loads_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (program,) = PROGRAM.findall((ROOT / "docs/how-to/load-with-spark.md").read_text(encoding="utf-8"))
    people = ROOT / "examples" / "people"
    monkeypatch.chdir(tmp_path)
    og.create_graph("people.omni", (people / "schema.pg").read_text(encoding="utf-8")).load(
        people / "people.jsonl", mode="append"
    )

    exec(compile(program, "load-with-spark.md", "exec"), {})  # noqa: S102 - our own page

    assert capsys.readouterr().out == "1000 [{'people': 1006}]\n"
