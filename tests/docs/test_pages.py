"""The pages are true: links lead somewhere, generated pages are fresh, pasted sessions print what they show."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from _pytest.mark import ParameterSet

import cli_reference
import errors_reference
import picture
import python_reference
import sessions
import site_pages as site
from spark_shared import shared_spark

ROOT = Path(__file__).parents[2]
PAGES = sessions.pages()
LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")
FENCED = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


def anchors_of(page: Path) -> set[str]:
    """The anchors of a page's headings, as they are made for the web."""
    headings = re.findall(r"^#+ (.+)$", FENCED.sub("", page.read_text(encoding="utf-8")), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


def broken_links(page: Path) -> list[str]:
    broken = []
    for target in LINK.findall(FENCED.sub("", page.read_text(encoding="utf-8"))):
        if target.startswith(("http://", "https://", "mailto:")):
            continue
        path, _, anchor = target.partition("#")
        linked = (page.parent / path).resolve() if path else page
        is_page = linked.suffix == ".md" and linked.exists()
        if not linked.exists() or (anchor and is_page and anchor not in anchors_of(linked)):
            broken.append(target)
    return broken


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_link_leads_somewhere(page: Path) -> None:
    assert broken_links(page) == []


@pytest.mark.parametrize("target", ["missing.md", "#no-such-heading", "page.md#no-such-heading"])
def test_a_broken_link_is_found(tmp_path: Path, target: str) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"# A heading\n\n[good](#a-heading) [bad]({target})\n", encoding="utf-8")

    assert broken_links(page) == [target]


def test_every_page_can_be_reached_from_the_index() -> None:
    reached: set[Path] = set()
    waiting = [ROOT / "docs" / "index.md"]
    while waiting:
        page = waiting.pop()
        if page in reached or page.suffix != ".md":
            continue
        reached.add(page)
        targets = (target.partition("#")[0] for target in LINK.findall(page.read_text(encoding="utf-8")))
        waiting += [(page.parent / path).resolve() for path in targets if path and "://" not in path]

    assert {name_of(page) for page in PAGES if "docs" in page.parts} - {name_of(page) for page in reached} == set()


def test_the_index_of_decisions_is_complete_and_in_order() -> None:
    directory = ROOT / "docs" / "decisions"
    pages = sorted(path.name for path in directory.glob("0*.md"))
    index = (directory / "README.md").read_text(encoding="utf-8")
    listed = re.findall(r"^(\d+)\. \[(.+)\]\((.+)\)$", index, re.MULTILINE)

    assert [name for _, _, name in listed] == pages
    for number, title, name in listed:
        first_line = (directory / name).read_text(encoding="utf-8").partition("\n")[0]
        assert first_line == f"# {number}. {title}"
        assert name.startswith(f"{int(number):04d}-")


def test_every_room_is_described() -> None:
    rooms = {path.parent.name for path in (ROOT / "src" / "omnigraph").glob("**/__init__.py")} - {"omnigraph", "rules"}
    described = re.findall(
        r"^\| `(\w+)` \|", (ROOT / "docs/explanation/architecture.md").read_text("utf-8"), re.MULTILINE
    )

    assert rooms - set(described) == set()


def test_the_glossary_has_each_word_once_in_order() -> None:
    tables = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8").split("|---|---|\n")[1:]
    words = [re.findall(r"^\| (?!word \|)([^|]+) \|", table, re.MULTILINE) for table in tables]

    assert words == [sorted(set(some)) for some in words]
    assert len({word for some in words for word in some}) > 50


def test_the_reference_of_the_command_line_is_fresh() -> None:
    assert cli_reference.PAGE.read_text(encoding="utf-8") == cli_reference.page(), "run `make docs`"


def test_the_reference_of_errors_is_fresh() -> None:
    assert errors_reference.PAGE.read_text(encoding="utf-8") == errors_reference.page(), "run `make docs`"


def test_the_reference_of_python_is_fresh() -> None:
    assert python_reference.PAGE.read_text(encoding="utf-8") == python_reference.page(), "run `make docs`"


def test_the_site_is_built_without_a_complaint(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    site.build(tmp_path / "site")

    assert "No issues found" in capfd.readouterr().err
    assert {"README.md", "docs/reference/cli.md"} <= {str(path) for path in menu_paths(site.menu())}
    for page in menu_paths(site.menu()):
        name = "index.html" if page.name == "README.md" else f"{page.stem}.html"
        assert (tmp_path / "site" / page.with_name(name)).exists(), page


def menu_paths(entry: object) -> list[Path]:
    """The pages of a menu, flat."""
    match entry:
        case dict():
            return [path for one in entry.values() for path in menu_paths(one)]
        case list():
            return [path for one in entry for path in menu_paths(one)]
        case _:
            return [Path(str(entry))]


def test_the_picture_of_branches_is_fresh() -> None:
    assert picture.PICTURE.read_text(encoding="utf-8") == picture.picture(), "run `make docs`"


def test_every_error_has_a_code_of_its_own() -> None:
    cases = errors_reference.cases()

    assert len({code for code, _ in cases}) == len(cases)


def pages_with_sessions() -> Iterator[ParameterSet]:
    """Those that need a Spark share it with its tests."""
    for page in PAGES:
        session = "".join(sessions.SESSION.findall(page.read_text("utf-8")))
        if session:
            is_spark = "--engine spark" in session or "omnigraph spark" in session
            marks = [pytest.mark.timeout(360)] if is_spark else []
            yield pytest.param(page, is_spark, marks=marks, id=name_of(page))


@pytest.mark.parametrize("page, is_spark", list(pages_with_sessions()))
def test_a_pasted_session_prints_what_it_shows(page: Path, is_spark: bool) -> None:
    if is_spark:
        shared_spark()
    text = page.read_text(encoding="utf-8")

    assert text == sessions.refreshed(text), "run `make docs`"


def test_the_readme_shows_a_session() -> None:
    assert sessions.SESSION.search((ROOT / "README.md").read_text(encoding="utf-8"))
