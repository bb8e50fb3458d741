"""Graphs go out as GraphML, node-link JSON, networkx and arrays, and come in from other programs' files."""

import json
import random
from collections import Counter
from datetime import date
from io import BytesIO
from pathlib import Path
from typing import Any

import networkx as nx
import pytest

import omnigraph as og
from omnigraph.cli.main import main
from omnigraph.errors import BadArgumentError
from page_blocks import check_programs

SCHEMA = """
node Person { name: String @key  age: I64?  tall: F64?  good: Bool?  tags: [String]?  bio: String? }
node Town { code: String @key  people: I64? }
edge Knows: Person -> Person { since: I64?  note: String? }
edge Lives: Person -> Town
edge Road: Town -> Town { km: F64? }
"""
TEXTS = ["", "x", "a<b>&c", 'say "hi"', "two\nlines", "tab\there", "é€😀", "null", "007", "]]>"]
FORMATS = ["graphml", "node-link"]
ENDINGS = {"graphml": "graphml", "node-link": "json"}


def random_records(dice: random.Random) -> list[dict[str, Any]]:
    """Nodes of two types and edges of three, with nulls, loops, parallel edges and texts that need quoting."""

    def pick(**makers: Any) -> dict[str, Any]:
        return {name: maker() for name, maker in makers.items() if dice.random() < 0.7}

    names = [f"{text}{number}" for number, text in enumerate(dice.sample(TEXTS, 6))]
    towns = [f"t{number}" for number in range(3)]
    values = {
        "age": lambda: dice.randint(-(2**53), 2**53),
        "tall": lambda: dice.choice([0.5, -1.25, 1e300, dice.random()]),
        "good": lambda: dice.random() < 0.5,
        "tags": lambda: [dice.choice(TEXTS) for _ in range(dice.randint(0, 3))],
        "bio": lambda: dice.choice(TEXTS),
    }
    records: list[dict[str, Any]] = [{"type": "Person", "data": {"name": name, **pick(**values)}} for name in names]
    records += [{"type": "Town", "data": {"code": code, **pick(people=lambda: dice.randint(0, 9))}} for code in towns]
    notes = {"since": lambda: dice.randint(1900, 2000), "note": lambda: dice.choice(TEXTS)}
    for name, sources, targets, makers in (
        ("Knows", names, names, notes),
        ("Lives", names, towns, {}),
        ("Road", towns, towns, {"km": dice.random}),
    ):
        records += [
            {"edge": name, "from": dice.choice(sources), "to": dice.choice(targets), "data": pick(**makers)}
            for _ in range(dice.randint(0, 6))
        ]
    return records


def build(place: Path, records: list[dict[str, Any]], schema: str = SCHEMA) -> og.Graph:
    graph = og.create_graph(str(place), schema)
    graph.load(BytesIO("\n".join(map(json.dumps, records)).encode()), mode="append")
    return graph


def exported(graph: og.Graph) -> Counter[str]:
    """All nodes and edges, without the ids of edges, and values that are null."""
    out = BytesIO()
    graph.export(out)
    found: Counter[str] = Counter()
    for line in out.getvalue().splitlines():
        record = json.loads(line)
        record.pop("id", None)
        record["data"] = {name: value for name, value in record["data"].items() if value is not None}
        found[json.dumps(record, sort_keys=True)] += 1
    return found


def imported(place: Path, *files: Path, **options: Any) -> og.Graph:
    """The graph that is inferred from files, and holds them."""
    inferred = og.infer_schema(files, **options)
    graph = og.create_graph(str(place), inferred.source)
    paths = dict.fromkeys((*(mapping.file for mapping in inferred.mappings), *inferred.headers))
    graph.load(og.read_files(paths, inferred.source, mapping=inferred.mapping), mode="append")  # type: ignore[arg-type]
    return graph


# --- out and in again --------------------------------------------------------------------------------------


@pytest.mark.parametrize("format_", FORMATS)
@pytest.mark.parametrize("seed", range(10))
def test_what_is_exported_loads_into_an_equal_graph(tmp_path: Path, seed: int, format_: str) -> None:
    graph = build(tmp_path / "g.omni", random_records(random.Random(seed)))
    file = tmp_path / f"out.{ENDINGS[format_]}"

    graph.export(file, format=format_)
    again = og.create_graph(str(tmp_path / "again.omni"), SCHEMA)
    again.load(og.read_files([file], SCHEMA), mode="append")  # type: ignore[arg-type]

    assert exported(again) == exported(graph)


@pytest.mark.parametrize("format_", FORMATS)
def test_a_schema_is_inferred_from_an_export(tmp_path: Path, format_: str) -> None:
    graph = build(tmp_path / "g.omni", random_records(random.Random(5)))
    file = tmp_path / f"out.{ENDINGS[format_]}"
    graph.export(file, format=format_)

    again = imported(tmp_path / "again.omni", file)

    names = [row["n.name"] for row in graph.query("match { $n: Person } return { $n.name } order { $n.name }").rows()]
    found = again.query("match { $n: Person } return { $n.name } order { $n.name }").rows()
    assert [row["n.name"] for row in found] == names
    assert "edge Knows: Person -> Person" in again.schema


@pytest.mark.parametrize("seed", range(5))
def test_networkx_reads_the_graphml_that_is_written(tmp_path: Path, seed: int) -> None:
    graph = build(tmp_path / "g.omni", random_records(random.Random(seed)))
    graph.export(tmp_path / "out.graphml", format="graphml")

    # Without edges that are parallel, networkx reads a graph that is none of multiple edges.
    read = nx.read_graphml(tmp_path / "out.graphml", force_multigraph=True)

    whole = graph.to_networkx()
    assert set(read.nodes) == set(whole.nodes)
    assert Counter((a, b) for a, b, _ in read.edges) == Counter((a, b) for a, b, _ in whole.edges)
    for name, values in whole.nodes(data=True):
        plain = {key: value for key, value in values.items() if value is not None and key not in ("type", "tags")}
        assert {key: value for key, value in read.nodes[name].items() if key not in ("labels", "tags")} == plain


def test_networkx_reads_the_node_link_document_that_is_written(tmp_path: Path) -> None:
    graph = build(tmp_path / "g.omni", random_records(random.Random(1)))
    graph.export(tmp_path / "out.json", format="node-link")

    read = nx.node_link_graph(json.loads((tmp_path / "out.json").read_text()), edges="edges")

    whole = graph.to_networkx()
    assert set(read.nodes) == set(whole.nodes)
    assert Counter((a, b) for a, b, _ in read.edges) == Counter((a, b) for a, b, _ in whole.edges)


@pytest.mark.parametrize("ending", ["graphml", "graphml.gz", "json"])
def test_what_networkx_writes_is_read(tmp_path: Path, ending: str) -> None:
    club = nx.karate_club_graph()
    file = tmp_path / f"club.{ending}"
    if ending == "json":
        file.write_text(json.dumps(nx.node_link_data(club, edges="links")))
    else:
        nx.write_graphml(club, file)

    graph = imported(tmp_path / "g.omni", file)

    ends = graph.query("match { $a: Node  $a edge $b } return { $a.node_id as a, $b.node_id as b }").rows()
    assert {(str(row["a"]), str(row["b"])) for row in ends} == {(str(a), str(b)) for a, b in club.edges}
    clubs = graph.query("match { $a: Node } return { $a.node_id as id, $a.club as club }").rows()
    assert {str(row["id"]): row["club"] for row in clubs} == {str(n): v["club"] for n, v in club.nodes(data=True)}


def test_edge_lists_have_the_numbers_of_their_nodes(tmp_path: Path) -> None:
    graph = build(tmp_path / "g.omni", random_records(random.Random(3)))

    numbered = graph.edge_list(["Knows", "Lives"], properties=["since"])

    nodes = [f"{row['type']}/{row['id']}" for row in numbered.nodes.to_pylist()]
    found = Counter((r["edge"], nodes[r["source"]], nodes[r["target"]], r["since"]) for r in numbered.edges.to_pylist())
    whole = graph.to_networkx(types=["Person", "Town", "Knows", "Lives"])
    assert found == Counter((v["type"], a, b, v.get("since")) for a, b, v in whole.edges(data=True))


def test_a_view_is_one_of_the_state_that_is_asked_for(tmp_path: Path) -> None:
    graph = build(tmp_path / "g.omni", [{"type": "Town", "data": {"code": "a"}}])
    then = graph.commits()[0].id
    graph.mutate('query add() { insert Town { code: "b" } }')

    assert sorted(graph.to_networkx(types=["Town"]).nodes) == ["a", "b"]
    assert sorted(graph.to_networkx(types=["Town"], snapshot=then).nodes) == ["a"]
    assert len(graph.edge_list("Road", snapshot=then).nodes) == 1


# --- what can't be written ---------------------------------------------------------------------------------


def test_graphml_refuses_what_xml_cant_hold(tmp_path: Path) -> None:
    graph = build(tmp_path / "g.omni", [{"type": "Town", "data": {"code": "a\x01"}}])

    with pytest.raises(BadArgumentError, match=r"U\+0001"):
        graph.export(tmp_path / "out.graphml", format="graphml")


@pytest.mark.parametrize("format_", FORMATS)
def test_edges_are_not_written_without_their_nodes(tmp_path: Path, format_: str) -> None:
    graph = build(tmp_path / "g.omni", [{"type": "Town", "data": {"code": "a"}}])

    with pytest.raises(BadArgumentError, match="name it, too"):
        graph.export(tmp_path / "out", format=format_, types=["Road"])
    with pytest.raises(BadArgumentError, match="name it, too"):
        graph.to_networkx(types=["Road"])


# --- files that are wrong or hostile -----------------------------------------------------------------------

HEAD = '<?xml version="1.0"?>\n<graphml>\n<key id="k" for="node" attr.name="age" attr.type="int"/>\n<graph>\n'
BOMB = (
    '<?xml version="1.0"?>\n<!DOCTYPE x [<!ENTITY a "ha"><!ENTITY b "&a;&a;">]>\n<graphml><graph>&b;</graph></graphml>'
)


@pytest.mark.parametrize(
    "text, message",
    [
        (BOMB, "line 2: it declares the entity `a`"),
        ('<!DOCTYPE x SYSTEM "file:///etc/passwd"><graphml><graph><node id="a"/></graph></graphml>', ""),
        ("<svg/>", "line 1: it begins with `svg`"),
        ("<graphml><graph></graphml>", "line 1, column 19: mismatched tag"),
        (HEAD + '<node id="a"><data key="k">x</data></node></graph></graphml>', "line 5: `x` is no value of `age`"),
        (HEAD + '<node id="a"><data key="j">1</data></node></graph></graphml>', "line 5: data have the key `j`"),
        (HEAD + "<node/></graph></graphml>", "line 5: a node has no id"),
        (HEAD + '<node id="a"/>\n<edge source="a"/></graph></graphml>', "line 6: an edge has no target"),
        (HEAD + '<node id="a"/>\n<edge source="a" target="b"/></graph></graphml>', "line 6: an edge leads to `b`"),
        (HEAD + '<node id="a"/>\n<node id="a"/></graph></graphml>', "line 6: another node has the id `a`"),
        (HEAD + '<node id="a"><graph/></node></graph></graphml>', "a graph inside of a node"),
        (HEAD + "<hyperedge/></graph></graphml>", "a `hyperedge` can't be read"),
        (HEAD + "<x>" * 200, "more than 100 deep"),
        (HEAD.replace('"int"', '"colour"') + "</graph></graphml>", "has the type `colour`"),
    ],
)
def test_graphml_that_is_wrong_is_refused_with_its_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, message: str
) -> None:
    file = tmp_path / "x.graphml"
    file.write_text(text)

    code = main(["init", str(tmp_path / "g.omni"), "--from", str(file)])

    shown = capsys.readouterr()
    assert (code == 0) == (message == "")
    assert message in shown.err
    assert "root:" not in shown.out + shown.err
    assert (tmp_path / "g.omni").exists() == (message == "")


# --- Neo4j -------------------------------------------------------------------------------------------------


def write(place: Path, **files: str) -> list[Path]:
    paths = []
    for name, text in files.items():
        path = place / f"{name}.csv"
        path.write_text(text, encoding="utf-8")
        paths.append(path)
    return paths


def test_the_headers_of_neo4j_say_what_columns_are(tmp_path: Path) -> None:
    files = write(
        tmp_path,
        people="personId:ID(P);name;born:int;good:boolean;score:double;tags:string[];skipped:IGNORE;:LABEL\n"
        '1;"Ada; the first";1815;true;0.5;a|b;x;Person\n2;Bob;;;;;;Person\n',
        towns="code:ID(T);:LABEL\n1;Town\n",
        edges=":START_ID(P);:END_ID(T);since:date;:TYPE\n1;1;1840-01-31;LIVES_IN\n2;1;;LIVES_IN\n",
    )

    graph = imported(tmp_path / "g.omni", *files, options=og.FileOptions(delimiter=";"))

    rows = graph.query("match { $p: Person  $p livesIn $t } return { $p, $t } order { $p.personId }").rows()
    assert rows[0]["p"] | {"tags": ["a", "b"]} == rows[0]["p"]
    assert {key: rows[0]["p"][key] for key in ("name", "born", "good", "score")} == {
        "name": "Ada; the first",
        "born": 1815,
        "good": True,
        "score": 0.5,
    }
    assert rows[1]["p"]["born"] is None
    assert [row["t"]["code"] for row in rows] == ["1", "1"]
    since = graph.query("match { $p: Person  $p $e:livesIn $t } return { $e.since } order { $p.personId }").rows()
    assert [row["e.since"] for row in since] == [date(1840, 1, 31), None]


def split(place: Path, **more: str) -> list[Path]:
    """Files as `neo4j-admin` takes them: two headers, and their rows in files of their own."""
    texts = {
        "actors-header": "key:ID;name;born:int;:LABEL\n",
        "actors-part1": "1;Ada;1815;Actor\n",
        "actors-part2": "2;Bob;;Actor\n3;3;3;Actor\n",
        "roles_header": ":START_ID;:END_ID;:TYPE\n",
        "roles": "1;1;KNOWS\n1;3;KNOWS\n",
    }
    return write(place, **(texts | more))


@pytest.mark.parametrize("is_reversed", [False, True])
def test_headers_in_files_of_their_own_are_those_of_the_files_named_after_them(
    tmp_path: Path, is_reversed: bool
) -> None:
    files = split(tmp_path)[:: -1 if is_reversed else 1]

    graph = imported(tmp_path / "g.omni", *files)

    rows = graph.query("match { $a: Actor } return { $a.name, $a.born } order { $a.key }").rows()
    assert [tuple(row.values()) for row in rows] == [("Ada", 1815), ("Bob", None), ("3", 3)]
    found = graph.query("match { $a: Actor  $a knows $b } return { $a.name, $b.name } order { $b.name }").rows()
    assert [tuple(row.values()) for row in found] == [("Ada", "3"), ("Ada", "Ada")]


def test_a_graph_is_made_of_a_pattern_that_names_headers_too(tmp_path: Path) -> None:
    split(tmp_path)

    code = main(["init", str(tmp_path / "g.omni"), "--from", str(tmp_path / "*.csv"), "--delimiter", ";"])

    assert code == 0
    graph = og.open_graph(str(tmp_path / "g.omni"))
    assert graph.query("match { $a: Actor  $a knows $b } return { $a, $b }").row_count == 2


def test_the_longest_name_of_a_header_wins_and_a_file_with_a_header_is_whole(tmp_path: Path) -> None:
    files = split(
        tmp_path,
        **{
            "actors-old-header": "key:ID;year:int;:LABEL\n",
            "actors-old": "9;1900;Old\n",
            "actors-whole": "name;key:ID;:LABEL\nCleo;7;Actor\n",
        },
    )

    inferred = og.infer_schema(files)
    graph = og.create_graph(str(tmp_path / "g.omni"), inferred.source)
    graph.load(og.read_files(files, inferred.source), mode="append")  # type: ignore[arg-type]

    rows = graph.query("match { $a: Actor } return { $a.key, $a.name } order { $a.key }").rows()
    assert [tuple(row.values()) for row in rows] == [("1", "Ada"), ("2", "Bob"), ("3", "3"), ("7", "Cleo")]
    old = graph.query("match { $o: Old } return { $o.key, $o.year }").rows()
    assert [tuple(row.values()) for row in old] == [("9", 1900)]


@pytest.mark.parametrize(
    "files, message",
    [
        (
            {"actors-part2": "2;Bob\n"},
            "actors-part2.csv.*line 1 has 2 cells, and its header, `actors-header.csv`, has 4",
        ),
        ({"towns-header": "id:ID;:LABEL\n"}, "towns-header.csv.*only a header.*such as `towns-part1.csv`"),
        ({"roles": ":START_ID;:END_ID;:TYPE\n1;1;KNOWS\n"}, "roles_header.csv.*only a header"),
    ],
)
def test_a_header_that_fits_no_file_is_refused(tmp_path: Path, files: dict[str, str], message: str) -> None:
    with pytest.raises(og.OmnigraphError, match=message):
        og.infer_schema(split(tmp_path, **files))


def test_what_does_not_fit_a_typed_graph_is_counted(tmp_path: Path) -> None:
    files = write(
        tmp_path,
        nodes=":ID,size,:LABEL\na,1,A\nb,x,A\nc,2,A;B\nd,3,\n",
        edges=":START_ID,:END_ID,:TYPE\na,b,T\na,c,T\nd,a,T\n",
    )

    inferred = og.infer_schema(files)

    assert any("1 node with the labels A and B" in note for note in inferred.findings)
    assert any("1 node without a label" in note for note in inferred.findings)
    assert any("T has 3 pairs of ends: A -> A (1), A -> A:B (1), Node -> A (1)" in note for note in inferred.findings)


def test_a_property_of_two_types_is_counted(tmp_path: Path) -> None:
    lines = [
        {"type": "node", "id": str(n), "labels": ["A"], "properties": {"size": v}} for n, v in enumerate([1, "x", 2])
    ]
    (tmp_path / "g.json").write_text("\n".join(map(json.dumps, lines)))

    inferred = og.infer_schema([tmp_path / "g.json"])

    assert inferred.findings == ("A.size has values of several types: I64 2, String 1",)
    assert imported(tmp_path / "g.omni", tmp_path / "g.json").query("match { $a: A } return { $a.size }").row_count == 3


def test_a_mapping_puts_labels_and_ends_together(tmp_path: Path) -> None:
    files = write(
        tmp_path,
        nodes=":ID,size:int,:LABEL\na,1,A\nb,2,A;B\n",
        edges=":START_ID,:END_ID,:TYPE\na,b,T\nb,b,T\n",
    )
    schema = "node A { name: String @key  size: I64?  isB: Bool? }\nedge T: A -> A\n"
    mapping = "".join(
        f'[[source]]\nfile = "nodes.csv"\ntable = "{table}"\nnode = "A"\n{constants}[source.columns]\nid = "name"\n'
        for table, constants in (("A", ""), ("A:B", "constants = {isB = true}\n"))
    ) + "".join(
        f'[[source]]\nfile = "edges.csv"\ntable = "T ({ends})"\nedge = "T"\n' for ends in ("A -> A:B", "A:B -> A:B")
    )

    graph = og.create_graph(str(tmp_path / "g.omni"), schema)
    graph.load(og.read_files(files, schema, mapping=mapping, mapping_base=tmp_path), mode="append")  # type: ignore[arg-type]

    rows = graph.query("match { $a: A } return { $a.name, $a.size, $a.isB } order { $a.name }").rows()
    assert [tuple(row.values()) for row in rows] == [("a", 1, None), ("b", 2, True)]
    assert len(graph.edge_list("T").edges) == 2


@pytest.mark.parametrize(
    "nodes, edges, message",
    [
        (":ID,:LABEL\na,A\n", ":START_ID,:END_ID\na,z\n", "line 2: an edge leads to `z`"),
        (":ID,:LABEL\na,A\na,A\n", ":START_ID,:END_ID\na,a\n", "line 3: another node has the id `a`"),
        (":ID,n:int,:LABEL\na,x,A\n", ":START_ID,:END_ID\na,a\n", "line 2"),
        (":ID,n:colour,:LABEL\na,x,A\n", ":START_ID,:END_ID\na,a\n", "unknown type `colour`"),
        (":ID,:LABEL\na,A\n", ":START_ID(X),:END_ID\nz,a\n", "whose values are keys of the other files"),
    ],
)
def test_files_of_neo4j_that_do_not_fit_are_refused(tmp_path: Path, nodes: str, edges: str, message: str) -> None:
    files = write(tmp_path, nodes=nodes, edges=edges)

    with pytest.raises(og.OmnigraphError, match=message):
        og.infer_schema(files)


def test_the_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    check_programs("exchange-graphs.md", tmp_path, monkeypatch, capsys, programs=1)
