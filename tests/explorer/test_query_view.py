"""The query view: parameters, cancel, plans, stored queries, history, files of a result, and links to it."""

import csv
import io
import json
from http.client import HTTPConnection

import pyarrow as pa
import pytest

from explorer.browser import Browser, link, until
from explorer.conftest import Server
from explorer.story import BRANCH, TOKENS, Story

PEOPLE = (
    "query people($least: I32) { match { $p: Person $p.age >= $least } return { $p.name, $p.age as age, $p.email } }"
)
# A text for each of 200 million combinations, none of which is kept: it runs for minutes.
SLOW = (
    "query slow() { match { $a: Person $b: Person $c: Person $d: Person $e: Person $f: Person"
    " lower(upper(lower($a.name + $b.name + $c.name + $d.name + $e.name + $f.name + $e.name + $d.name + $c.name)))"
    ' = "x" } return { count($a) as n } }'
)
RUN = '.query button:text-is("Run")'


def open_query(browser: Browser, server: Server, query: str, **more: str) -> None:
    browser.open(link(server.base, "query", branch="main", query=query, **more), token=TOKENS["ada"])
    browser.run("await context.grantPermissions(['clipboard-read', 'clipboard-write'])")
    browser.settle("query")


def ask_running(server: Server) -> list[object]:
    """The running queries of ada, as the server lists them."""
    connection = HTTPConnection("127.0.0.1", server.port, timeout=60)
    try:
        connection.request("GET", "/graphs/social/running", headers={"Authorization": f"Bearer {TOKENS['ada']}"})
        found: list[object] = json.loads(connection.getresponse().read())["running"]
        return found
    finally:
        connection.close()


def cells(browser: Browser) -> list[list[str]]:
    return browser.rows(".results .grid-row")


def test_a_result_is_saved_copied_and_linked_with_its_parameters_and_commit(
    browser: Browser, server: Server, story: Story
) -> None:
    commit = story.graph.commits(limit=2)[1].id
    open_query(browser, server, PEOPLE, commit=commit)
    browser.wait(".parameters label:has-text('$least')")
    browser.fill(".parameters input", "40")
    browser.click(RUN)
    browser.wait(".results .grid-row")
    expected = story.graph.query(PEOPLE, params={"least": 40}, snapshot=commit).rows()
    assert 3 < len(expected) < 20

    arrow = pa.ipc.open_stream(browser.download('.results button:has-text("Arrow")')).read_all()
    saved = list(csv.reader(io.StringIO(browser.download('.results button:has-text("CSV")').decode())))
    browser.click('.results button:text-is("Copy")')
    copied = [line.split("\t") for line in browser.clipboard().splitlines()]

    assert arrow.to_pylist() == expected
    assert saved[0] == copied[0] == ["p.name", "age", "p.email"]
    assert saved[1:] == copied[1:] == [[str(value) for value in row.values()] for row in expected]

    # The link gives the same rows to who opens it, also when main has gone on.
    browser.click('.results button:has-text("Copy link")')
    shown, address = cells(browser), browser.clipboard()
    assert commit in address
    browser.open(address, token=TOKENS["rita"])
    browser.wait(".results .grid-row")
    assert cells(browser) == shown
    assert browser.value(".parameters input") == "40"
    assert browser.complaints() == []


def test_rows_are_sorted_opened_and_shown_as_json(browser: Browser, server: Server) -> None:
    open_query(browser, server, "query q() { match { $p: Person } return { $p.name, $p.age as age, $p } }")
    browser.wait(".results .grid-row")
    browser.click('.grid-head button:has-text("age")')
    browser.wait('.grid-head [aria-sort="ascending"] button:has-text("age")')
    ages = [int(row[1]) for row in cells(browser)]
    assert ages == sorted(ages)
    browser.run("await page.locator('.results .grid').focus()")
    browser.press("Control+End", "Enter")
    browser.wait("dialog[open] pre")
    assert json.loads(browser.text("dialog[open] pre"))["age"] == ages[-1]
    browser.press("Escape")
    browser.click('.results .choice button:has-text("JSON")')
    assert [row["age"] for row in json.loads(browser.text(".results pre.json"))] == ages
    assert browser.complaints() == []


def test_a_running_query_is_cancelled_here_and_on_the_server(browser: Browser, server: Server) -> None:
    open_query(browser, server, "")
    for button in ("Run", "Explain"):
        browser.write_query(SLOW)
        browser.click(f'.query button:text-is("{button}")')
        browser.wait(".query .busy:has-text(' s')")
        until(lambda: len(ask_running(server)) == 1)
        browser.wait('footer .tag:text-is("1 running")')
        browser.click('.query button:has-text("Cancel")')
        browser.wait(".query [role=status]:text-is('Cancelled.')")
        assert ask_running(server) == []
        assert browser.count(".query .problem") == 0
    browser.write_query("query q() { match { $p: Person } return { count($p) as n } }")
    browser.click(RUN)
    browser.wait('.results .grid[data-total="1"]')


def test_a_query_is_there_again_after_a_look_at_another_view(browser: Browser, server: Server) -> None:
    open_query(browser, server, "")
    browser.write_query(PEOPLE)
    browser.wait(".parameters input")
    browser.fill(".parameters input", "40")
    browser.click(RUN)
    browser.wait(".results .grid-row")
    shown = cells(browser)

    browser.run('await page.locator("main").focus()')
    browser.press("4")
    browser.settle("schema")
    browser.press("2")

    browser.wait(".results .grid-row")
    assert cells(browser) == shown
    assert browser.value(".parameters input") == "40"
    browser.choose("header label:has-text('Branch') select", BRANCH)
    browser.wait(".results .grid-row")
    assert browser.value(".parameters input") == "40"
    assert browser.complaints() == []


def test_a_query_is_explained(browser: Browser, server: Server) -> None:
    open_query(browser, server, "")
    browser.write_query('query q() { match { $p: Person { name: "Ada" } $p knows $q } return { $q.name } }')
    browser.click('.query button:text-is("Explain")')
    plan = browser.text('.panel:has(h2:text-is("Plan")) pre')
    assert "expand $p -[Knows]-> $q" in plan
    assert "rows  [" in plan, "it is run, so that estimates stand beside what was"
    assert browser.complaints() == []


def test_a_stored_query_is_chosen_filled_in_run_and_linked(browser: Browser, server: Server) -> None:
    open_query(browser, server, "")
    browser.choose('select[aria-label="Stored queries"]', "colleagues")
    browser.wait('.query p:has-text("With whom somebody works.")')
    assert browser.run("return page.locator(args.run).isDisabled()", run=RUN) is False
    browser.fill(".parameters input", "Ada")
    browser.click(RUN)
    browser.wait(".results .grid-row")
    browser.click('.grid-head button:has-text("other.name")')
    browser.wait('.grid-head [aria-sort="ascending"]')
    shown = cells(browser)
    assert [row[0] for row in shown] == sorted(["Alan", "Barbara", "Claude", "Dorothy"])
    assert pa.ipc.open_stream(browser.download('.results button:has-text("Arrow")')).read_all().num_rows == len(shown)

    browser.click('.results button:has-text("Copy link")')
    browser.open(browser.clipboard(), token=TOKENS["ada"])
    browser.wait(".results .grid-row")
    assert sorted(cells(browser)) == sorted(shown)
    browser.click('button:has-text("Write a query instead")')
    browser.wait(".editor .cm-content")
    assert browser.complaints() == []


def test_past_queries_come_back_and_can_be_forgotten(browser: Browser, server: Server) -> None:
    open_query(browser, server, "")
    for name in ("one", "two"):
        browser.write_query(f"query {name}() {{ match {{ $p: Person }} return {{ $p.name }} }}")
        browser.click(RUN)
        browser.wait('.results .grid[data-total="20"]')
    browser.run("await page.reload()")
    browser.settle("query")
    options = browser.run("return page.locator('select[aria-label=History] option').allInnerTexts()")
    assert [text.split("(")[0] for text in options[1:3]] == ["query two", "query one"]
    browser.choose("select[aria-label=History]", options[2])
    browser.wait(".editor .cm-line:has-text('query one')")
    stored = browser.run("return page.evaluate(() => JSON.stringify({ ...localStorage }))")
    assert TOKENS["ada"] not in stored
    browser.choose("select[aria-label=History]", "Forget all of them")
    assert browser.run("return page.evaluate(() => localStorage.length)") == 0


@pytest.mark.parametrize(
    "type_, wrong, right, says",
    [
        ("I64", "9223372036854775808", "9223372036854775807", "9223372036854775807"),
        ("F64", "1,5", "1.5", "1.5"),
        ("Date", "31.1.2026", "2026-01-31", "2026-01-31"),
        ("[String]", "a, b", '["a", "b"]', '["a","b"]'),
    ],
)
def test_parameters_are_a_form_that_knows_their_types(
    browser: Browser, server: Server, type_: str, wrong: str, right: str, says: str
) -> None:
    open_query(browser, server, f"query q($v: {type_}) {{ match {{ $c: Company }} return {{ $v as v }} limit 1 }}")
    browser.wait(".parameters label:has-text('$v')")
    browser.fill(".parameters input", wrong)
    browser.wait(".parameters .wrong")
    assert browser.run("return page.locator(args.run).isDisabled()", run=RUN) is True
    browser.fill(".parameters input", right)
    browser.click(RUN)
    browser.wait(".results .grid-row")
    assert says.replace('"', "").replace(" ", "") in cells(browser)[0][0].replace(" ", "").replace('"', "")
    assert browser.complaints() == []


def test_a_mutation_is_looked_at_before_it_is_made(browser: Browser, server: Server, story: Story) -> None:
    head = story.graph.commits(limit=1)[0].id
    text = 'query q($b: I64) { update Project set { budget: $b } where name = "Euclid" }'
    open_query(browser, server, text)
    browser.wait(".parameters label:has-text('$b')")
    browser.fill(".parameters input", "7")
    browser.click('.query button:text-is("Preview")')
    browser.wait("[aria-label='What it would change'] tr:has-text('Euclid'):has-text('130000'):has-text('7')")
    assert story.graph.commits(limit=1)[0].id == head
    assert browser.complaints() == []
