"""The page about HTTP has every route, as it is now."""

import re

import http_reference

HEADING = re.compile(r"^### (?P<method>[A-Z]+) (?P<path>/\S*)$", re.MULTILINE)


def test_the_reference_of_http_is_fresh() -> None:
    assert http_reference.PAGE.read_text(encoding="utf-8") == http_reference.page(), "run `make docs`"


def test_every_route_has_a_section() -> None:
    page = http_reference.PAGE.read_text(encoding="utf-8")
    shown = {(found["method"], found["path"]) for found in HEADING.finditer(page)}

    assert shown == {(method, path) for _, method, path in http_reference.routes()}
    assert len(shown) > 30


def test_every_section_says_what_it_takes_and_gives() -> None:
    page = http_reference.PAGE.read_text(encoding="utf-8").partition("## Shapes")[0]
    sections = [one for one in re.split(r"^##+ ", page, flags=re.MULTILINE) if re.match(r"[A-Z]+ /", one)]

    silent = [one.partition("\n")[0] for one in sections if not re.search(r"^- \*\*2\d\d\*\* ", one, re.MULTILINE)]

    assert len(sections) == len(list(http_reference.routes()))
    assert silent == []


def test_every_shape_that_is_linked_to_is_there() -> None:
    page = http_reference.PAGE.read_text(encoding="utf-8")
    linked = set(re.findall(r"\]\(#(\w+)\)", page))
    there = {name.lower() for name in re.findall(r"^### (\w+)$", page, re.MULTILINE)}

    assert linked <= there
