"""The data of the tour: as many rows as it says, the same every time, and such that the schema takes them."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from omnigraph.demo.synthetic_data import FULL, SMALL, SyntheticData
from omnigraph.engine.embedders.hashing import HashProvider


@pytest.fixture(scope="module")
def made() -> SyntheticData:
    return SyntheticData(SMALL)


def pairs(table: pa.Table) -> pa.Table:
    return table.select(["from", "to"]).group_by(["from", "to"]).aggregate([])


def test_the_tour_has_a_fifth_of_a_million_nodes_and_a_million_edges() -> None:
    assert (FULL.nodes, FULL.edges) == (200_000, 1_000_000)


def test_a_size_is_what_it_says(made: SyntheticData) -> None:
    tables = made.build_tables()

    assert {name: table.num_rows for name, table in tables.items()} == {
        "Person": SMALL.people,
        "Company": SMALL.companies,
        "Paper": SMALL.papers,
        "Knows": SMALL.knows,
        "WorksAt": SMALL.works_at,
        "Wrote": SMALL.wrote,
        "Cites": SMALL.cites,
    }


def test_the_same_seed_makes_the_same_rows(made: SyntheticData) -> None:
    again = SyntheticData(SMALL)

    assert all(table.equals(again.build_tables()[name]) for name, table in made.build_tables().items())


def test_another_seed_makes_other_rows(made: SyntheticData) -> None:
    other = SyntheticData(SMALL, seed=1)

    assert not other.knows.equals(made.knows)


@pytest.mark.parametrize("name, key", [("Person", "handle"), ("Company", "name"), ("Paper", "doi")])
def test_keys_are_unique(made: SyntheticData, name: str, key: str) -> None:
    table = made.build_tables()[name]

    assert len(table[key].unique()) == table.num_rows


@pytest.mark.parametrize("name", ["Knows", "WorksAt", "Wrote", "Cites"])
def test_no_edge_is_there_twice(made: SyntheticData, name: str) -> None:
    table = made.build_tables()[name]

    assert pairs(table).num_rows == table.num_rows


def test_nobody_knows_themselves(made: SyntheticData) -> None:
    assert not pc.any(pc.equal(made.knows["from"], made.knows["to"])).as_py()


def test_nobody_has_two_jobs(made: SyntheticData) -> None:
    assert len(made.works_at["from"].unique()) == made.works_at.num_rows


def test_every_paper_has_a_first_author(made: SyntheticData) -> None:
    first = made.wrote.filter(pc.equal(made.wrote["place"], 1))

    assert sorted(first["to"].to_pylist()) == sorted(made.paper["doi"].to_pylist())


def test_papers_cite_what_was_there_before_them(made: SyntheticData) -> None:
    order = {doi: place for place, doi in enumerate(made.paper["doi"].to_pylist())}
    source, target = (np.array([order[doi] for doi in made.cites[end].to_pylist()]) for end in ("from", "to"))

    assert (target < source).all()


def test_a_vector_is_that_of_its_abstract(made: SyntheticData) -> None:
    computed = HashProvider().embed(made.paper["abstract"].slice(0, 5).to_pylist(), 96)

    stored = np.array(made.paper["meaning"].slice(0, 5).to_pylist(), np.float32)

    assert np.array_equal(stored, computed)


def test_most_acquaintances_are_of_one_field(made: SyntheticData) -> None:
    field = dict(zip(made.person["handle"].to_pylist(), made.person["field"].to_pylist(), strict=True))
    same = [
        field[one] == field[other]
        for one, other in zip(made.knows["from"].to_pylist(), made.knows["to"].to_pylist(), strict=True)
    ]

    assert sum(same) > len(same) / 2
