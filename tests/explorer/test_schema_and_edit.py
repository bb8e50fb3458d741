"""The schema view, and the form that knows the rules of a type."""

from collections.abc import Iterator

import pytest

from explorer.browser import Browser, link
from explorer.conftest import Server, serving
from explorer.story import TOKENS, Story, build_story


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Story, Server]]:
    """A story of its own, because it is changed."""
    story = build_story(tmp_path_factory.mktemp("edited"))
    with serving(story.home) as server:
        yield story, server


def field(name: str) -> str:
    return f".fields .value-input:has(label:text-matches('^{name}\\\\b'))"


def test_the_schema_has_every_type_with_its_counts_rules_and_rows(
    browser: Browser, server: Server, story: Story
) -> None:
    browser.open(link(server.base, "schema", branch="main"), token=TOKENS["rita"])
    browser.settle("schema")
    catalog = story.graph.catalog().to_json()
    shown = {row[0]: row[2] for row in browser.rows("table[aria-label=Types] tbody tr")}
    assert shown == {one["name"]: str(one["rows"]) for one in (*catalog["nodes"], *catalog["edges"])}
    drawn = browser.run(
        "return page.locator('.schema .stage').evaluate((one) => one.sigma.getGraph().mapNodes((_, it) => it.label))"
    )
    assert {label.split()[0] for label in drawn} == {one["name"] for one in catalog["nodes"]}

    browser.click("table[aria-label=Types] button:has-text('Person')")
    rules = {row[0]: row[1:3] for row in browser.rows("table[aria-label='Properties of Person'] tbody tr")}
    assert rules["age"] == ["I32?", "0 to 150"]
    assert rules["role"] == ["enum", "one of engineer, designer, manager, researcher"]
    assert "@key(name)" in browser.text(".constraints")
    browser.wait(".type .grid[data-total='20']")
    assert {row[0] for row in browser.rows(".type .grid-row")} <= {
        str(row["n"]) for row in story.graph.query("match { $p: Person } return { $p.name as n }").rows()
    }
    browser.click("table[aria-label=Types] button:has-text('WorksAt')")
    browser.wait(".type .grid[data-total='20']")
    browser.click(".schema .choice button:has-text('Source')")
    browser.wait(".schema pre.json:has-text('edge WorksAt: Person -> Company @card(0..1)')")
    assert browser.complaints() == []


def test_a_row_is_edited_by_a_form_that_knows_the_rules(browser: Browser, own: tuple[Story, Server]) -> None:
    story, server = own
    browser.open(link(server.base, "edit", branch="main", type="Person", id="Tony"), token=TOKENS["ada"])
    browser.settle("edit")
    assert browser.run("return page.locator(args.key).isDisabled()", key=f"{field('name')} input") is True
    assert browser.run("return page.locator(args.one).allInnerTexts()", one=f"{field('role')} option") == [
        "engineer",
        "designer",
        "manager",
        "researcher",
    ]
    for name, wrong, says in (
        ("age", "151", "From 0 to 150"),
        ("age", "4.5", "A whole number"),
        ("email", "nobody", "It has to match"),
    ):
        browser.fill(f"{field(name)} input", wrong)
        browser.wait(f".wrong:has-text('{says}')")
        assert browser.run("return page.locator(args.save).isDisabled()", save=".edit .button.primary") is True
        browser.fill(f"{field(name)} input", "")
    # What only the server can know, it says.
    browser.fill(f"{field('email')} input", "ada@example.org")
    browser.click("button:has-text('Save to main')")
    browser.wait(".problem:has-text('ada@example.org')")

    browser.fill(f"{field('email')} input", "tony@example.com")
    browser.fill(f"{field('age')} input", "33")
    text = browser.text(".edit pre")
    assert "update Person set { age: $age, email: $email }" in text
    browser.click("button:has-text('Preview')")
    browser.wait("[aria-label='What it would change']:has-text('33')")
    browser.click("button:has-text('Save to main')")
    browser.wait(".outcome.good")
    row = story.graph.query('match { $p: Person { name: "Tony" } } return { $p.age as age, $p.email as email }').rows()[
        0
    ]
    assert row == {"age": 33, "email": "tony@example.com"}
    assert story.graph.commits(limit=1)[0].actor == "ada"


def test_a_node_and_an_edge_are_added_and_deleted(browser: Browser, own: tuple[Story, Server]) -> None:
    story, server = own
    browser.open(link(server.base, "edit", branch="main", type="Company"), token=TOKENS["ada"])
    browser.settle("edit")
    browser.fill(f"{field('name')} input", 'Say "hi" // $x')
    browser.click("button:has-text('Save to main')")
    browser.wait(".outcome.good")
    browser.choose(".edit label:has-text('Type') select", "WorksOn")
    browser.fill(".fields label:has-text('from') input", "Ada")
    browser.fill(".fields label:has-text('id of a Project') input", "Euclid")
    browser.fill(f"{field('hours')} input", "3")
    browser.wait(".edit pre:has-text('insert WorksOn { from: $from_id, to: $to_id, hours: $hours }')")
    browser.click("button:has-text('Save to main')")
    browser.wait(".outcome.good")
    assert [
        row["n"] for row in story.graph.query("match { $c: Company } return { $c.name as n } order { n }").rows()
    ].count('Say "hi" // $x') == 1
    ask = 'match { $p: Person { name: "Ada" } $p $e:worksOn $q $q.name = "Euclid" } return { $e.hours as hours }'
    assert story.graph.query(ask).rows() == [{"hours": 3}]

    browser.open(link(server.base, "edit", branch="main", type="Company", id='Say "hi" // $x'), token=TOKENS["ada"])
    browser.settle("edit")
    browser.click("button:text-is('Delete')")
    browser.wait(".outcome.good:has-text('Deleted')")
    assert len(story.graph.query("match { $c: Company } return { $c.name as n }").rows()) == 4
    assert browser.complaints() == []


def test_nothing_is_changed_in_an_earlier_state_or_without_permission(
    browser: Browser, server: Server, story: Story
) -> None:
    earlier = story.graph.commits(limit=2)[1].id
    for token, commit, says in (("ada", earlier, "earlier state"), ("rita", "", "may not change")):
        where = {"type": "Person", "id": "Ada"} | ({"commit": commit} if commit else {})
        browser.open(link(server.base, "edit", branch="main", **where), token=TOKENS[token])
        browser.settle("edit")
        browser.fill(f"{field('age')} input", "50")
        browser.wait(f".edit .hint:has-text('{says}')")
        assert browser.run("return page.locator('.edit .button.primary').isDisabled()") is True
        assert browser.complaints() == []


def test_the_footer_tells_of_newer_commits(browser: Browser, own: tuple[Story, Server]) -> None:
    story, server = own
    browser.open(link(server.base, "schema", branch="main"), token=TOKENS["ada"])
    browser.settle("schema")
    written = story.graph.mutate('query q() { update Person set { age: 44 } where name = "Tony" }').commit_id

    browser.click("footer button:has-text('newer commits')")

    browser.wait(f'.page[data-commit="{written}"]')
    assert browser.text("footer code") == str(written)[-8:]
    assert browser.count("footer button") == 0
