"""Build the documentation as a website in site/; run by `make docs`. A broken link fails the build.

The pages have the same paths as in the repository, so that links between them work in both. The menu is the list in
docs/index.md.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
SITE = ROOT / "site"
PAGES = (
    *("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "LICENSE"),
    *("docs", "examples", "tests/corpus/README.md", "clients/typescript/README.md"),
)

_FENCE = re.compile(r"^(```\w+) [^\n`]*$", re.MULTILINE)
_SECTION = re.compile(r"^\*\*(?P<title>[^*]+)\*\*.*\n(?P<items>(?:- .*\n)+)", re.MULTILINE)
_ITEM = re.compile(r"^- \[(?P<title>[^\]]+)\]\((?P<path>[^)#]+\.md)\)", re.MULTILINE)


def build(target: Path) -> None:
    """Build the whole site.

    Raises:
        CalledProcessError: A page has a broken link; the reason was printed on stderr.
    """
    with tempfile.TemporaryDirectory(prefix="omnigraph-site-") as directory:
        scratch = Path(directory)
        stage(scratch / "pages")
        (scratch / "zensical.toml").write_text(settings(), encoding="utf-8")
        zensical = Path(sys.executable).with_name("zensical")
        command = [str(zensical), "build", "--strict", "--config-file", str(scratch / "zensical.toml")]
        subprocess.run(command, check=True, stdout=sys.stderr, env={**os.environ, "NO_COLOR": "1"})
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(scratch / "site", target)


def stage(directory: Path) -> None:
    """Copy the pages and the files that they link to, without the marks after a fence's language.

    The marks, such as `error CODE`, are for tests: zensical does not know them.
    """
    for name in PAGES:
        source = ROOT / name
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, directory / name, ignore=shutil.ignore_patterns("__pycache__", "*.omni"))
        else:
            shutil.copy(source, directory / name)
    for page in directory.rglob("*.md"):
        page.write_text(_FENCE.sub(r"\1", page.read_text("utf-8")), encoding="utf-8")


def menu() -> list[dict[str, object]]:
    """Return the sections of docs/index.md, each with its pages."""
    index = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    sections: list[dict[str, object]] = [{"Start": ["README.md", {"All pages": "docs/index.md"}]}]
    for section in _SECTION.finditer(index):
        pages = [{item["title"]: _resolve_from_root(item["path"])} for item in _ITEM.finditer(section["items"])]
        sections.append({section["title"]: pages})
    return sections


def settings() -> str:
    """Return the settings of zensical; with them, readers of the site fetch nothing from other hosts."""
    lines = [
        "[project]",
        'site_name = "omnigraph"',
        'site_description = "A typed property graph that behaves like a lakehouse and like Git at once"',
        'docs_dir = "pages"',
        'site_dir = "site"',
        "use_directory_urls = false",
        f"nav = {_format_toml(menu())}",
        "[project.theme]",
        "font = false",
        'features = ["navigation.sections", "navigation.top", "content.code.copy", "search.highlight"]',
    ]
    return "\n".join(lines) + "\n"


def _resolve_from_root(path: str) -> str:
    return os.path.normpath(Path("docs") / path)


def _format_toml(value: object) -> str:
    """Return a value as TOML on one line."""
    match value:
        case dict():
            return "{" + ", ".join(f"{json.dumps(name)} = {_format_toml(item)}" for name, item in value.items()) + "}"
        case list():
            return "[" + ", ".join(map(_format_toml, value)) + "]"
        case _:
            return json.dumps(value)


if __name__ == "__main__":
    try:
        build(SITE)
    except subprocess.CalledProcessError as error:
        sys.exit(f"the site was not built: exit code {error.returncode}")
    print(f"built {SITE.name}/index.html")
