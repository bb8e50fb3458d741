"""Generate a synthetic data set: people, companies and papers, with texts, vectors and communities.

Tables are drawn column by column; the same size and seed give the same rows everywhere.
"""

import tomllib
from dataclasses import dataclass
from functools import cached_property
from importlib import resources
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from omnigraph.engine.embedders.hashing import HashProvider

VECTOR_SIZE = 96
_SECTORS = ("software", "health", "energy", "finance", "research")
_NOW = 2026
# This many people, the first ones, have a job whatever is drawn: the tour chooses its people among them.
MIN_EMPLOYED = 100

Numbers = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class DatasetSize:
    """The number of rows of each type."""

    people: int
    companies: int
    papers: int
    knows: int
    works_at: int
    wrote: int
    cites: int

    @property
    def nodes(self) -> int:
        """The number of all nodes."""
        return self.people + self.companies + self.papers

    @property
    def edges(self) -> int:
        """The number of all edges."""
        return self.knows + self.works_at + self.wrote + self.cites


FULL = DatasetSize(
    people=121_000, companies=2_400, papers=76_600, knows=430_000, works_at=100_000, wrote=190_000, cites=280_000
)
SMALL = DatasetSize(people=1_210, companies=24, papers=766, knows=4_300, works_at=1_000, wrote=1_900, cites=2_800)


class SyntheticData:
    """The rows of each type as tables, each generated at its first use."""

    def __init__(self, size: DatasetSize, *, seed: int = 20_260_105) -> None:
        self.size = size
        self._seed = seed
        words = tomllib.loads(resources.files(__package__).joinpath("vocabulary.toml").read_text("utf-8"))
        self._fields = list(words.pop("fields").items())
        self._words: dict[str, pa.Array] = {name: pa.array(values) for name, values in words.items()}
        self._templates: dict[str, list[str]] = words

    def build_tables(self) -> dict[str, pa.Table]:
        """Return every table by the name of its type, node types first."""
        return {
            "Person": self.person,
            "Company": self.company,
            "Paper": self.paper,
            "Knows": self.knows,
            "WorksAt": self.works_at,
            "Wrote": self.wrote,
            "Cites": self.cites,
        }

    @cached_property
    def person(self) -> pa.Table:
        """People; a handle is the name, and a number if the name occurs more than once."""
        draw, number = self._draw("person"), self.size.people
        first, last = (draw.integers(len(self._words[kind]), size=number) for kind in ("first_names", "last_names"))
        names = [self._words["first_names"].take(first), self._words["last_names"].take(last)]
        rank = _rank_within(first * len(self._words["last_names"]) + last)
        numbers = pc.if_else(pa.array(rank > 0), pc.cast(pa.array(rank + 1), pa.string()), "")
        lower = [pc.utf8_lower(part) for part in names]
        handle = pc.binary_join_element_wise(pc.binary_join_element_wise(*lower, "."), numbers, "")
        return pa.table(
            {
                "handle": handle,
                "name": pc.binary_join_element_wise(*names, " "),
                "field": self._field_names.take(self._field_of_person),
                "born": pa.array(draw.integers(1940, 2002, size=number), pa.int32()),
            }
        )

    @cached_property
    def company(self) -> pa.Table:
        """Companies; names are pairs of words, each pair once."""
        draw, number = self._draw("company"), self.size.companies
        heads, tails = self._words["company_heads"], self._words["company_tails"]
        pairs = draw.permutation(len(heads) * len(tails))[:number]
        return pa.table(
            {
                "name": pc.binary_join_element_wise(
                    heads.take(pairs // len(tails)), tails.take(pairs % len(tails)), " "
                ),
                "city": self._words["cities"].take(draw.integers(len(self._words["cities"]), size=number)),
                "sector": pa.array(_SECTORS).take(draw.integers(len(_SECTORS), size=number)),
                "founded": pa.array(draw.integers(1900, 2024, size=number), pa.int32()),
            }
        )

    @cached_property
    def paper(self) -> pa.Table:
        """Papers by year, with abstracts about terms of their field and vectors computed from the abstracts."""
        draw, number = self._draw("paper"), self.size.papers
        abstract = pc.binary_join_element_wise(
            self._draw_sentences("openings", draw),
            self._draw_sentences("middles", draw),
            self._draw_sentences("middles", draw),
            self._draw_sentences("endings", draw),
            " ",
        )
        title = self._draw_sentences("titles", draw)
        vectors = HashProvider().embed(abstract.to_pylist(), VECTOR_SIZE)
        serial = pc.utf8_lpad(pc.cast(pa.array(np.arange(number)), pa.string()), 6, "0")
        year = pc.cast(pa.array(self._year_of_paper), pa.string())
        return pa.table(
            {
                "doi": pc.binary_join_element_wise("10.5555/", year, ".", serial, ""),
                "title": pc.utf8_capitalize(title),
                "abstract": abstract,
                "meaning": pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), VECTOR_SIZE),
                "field": self._field_names.take(self._field_of_paper),
                "year": pa.array(self._year_of_paper, pa.int32()),
            }
        )

    @cached_property
    def knows(self) -> pa.Table:
        """Acquaintances, most of the person's own field; few people have many."""
        draw, number = self._draw("knows"), self.size.knows
        source, target = _draw_distinct_pairs(
            lambda count: self._draw_acquaintances(draw, count), number, self.size.people, is_loop_free=True, draw=draw
        )
        return self._build_edges("handle", self.person, source, "handle", self.person, target).append_column(
            "since", pa.array(draw.integers(1990, _NOW, size=number), pa.int32())
        )

    @cached_property
    def works_at(self) -> pa.Table:
        """Jobs, at most one per person; few companies are large. The first people all have one."""
        draw, number = self._draw("works_at"), self.size.works_at
        first = min(MIN_EMPLOYED, number)
        other_people = draw.permutation(np.arange(first, self.size.people))[: number - first]
        people = np.sort(np.concatenate([np.arange(first), other_people]))
        companies = _draw_skewed(draw, number, self.size.companies, 1.6)
        jobs = self._build_edges("handle", self.person, people, "name", self.company, companies)
        roles = self._words["roles"]
        return jobs.append_column("role", roles.take(draw.integers(len(roles), size=number))).append_column(
            "since", pa.array(draw.integers(1995, _NOW, size=number), pa.int32())
        )

    @cached_property
    def wrote(self) -> pa.Table:
        """Authors of papers: each paper has one of its field, and most have more."""
        draw, number, papers = self._draw("wrote"), self.size.wrote, self.size.papers

        def draw_authors(count: int) -> tuple[Numbers, Numbers]:
            paper = np.concatenate([np.arange(papers), draw.integers(papers, size=count - papers)])
            return self._draw_peers(draw, self._field_of_paper[paper]), paper

        # First authors come first, so they stay when the rest is cut to the number of rows.
        person, paper = _draw_distinct_pairs(draw_authors, number, papers, is_loop_free=False, draw=None)
        position = pa.array(_rank_within(paper) + 1, pa.int32())
        return self._build_edges("handle", self.person, person, "doi", self.paper, paper).append_column(
            "place", position
        )

    @cached_property
    def cites(self) -> pa.Table:
        """Citations of older papers, mostly of the same field and recent."""
        draw, number, papers = self._draw("cites"), self.size.cites, self.size.papers

        def draw_citations(count: int) -> tuple[Numbers, Numbers]:
            source = draw.integers(papers // 50, papers, size=count)
            back = np.floor(source * draw.power(4, size=count)).astype(np.int64)
            # The nearest paper of the same field at or before that position, unless it is a citation across fields.
            field = self._field_of_paper[source]
            order, starts = _group_by_label(self._field_of_paper, len(self._fields))
            keys = self._field_of_paper[order] * papers + order
            same = np.searchsorted(keys, field * papers + back, side="right") - 1
            same = order[np.maximum(same, starts[field])]
            target = np.where(draw.random(count) < 0.85, same, back)
            is_older = target < source
            return source[is_older], target[is_older]

        source, target = _draw_distinct_pairs(draw_citations, number, papers, is_loop_free=True, draw=draw)
        return self._build_edges("doi", self.paper, source, "doi", self.paper, target)

    @property
    def _field_names(self) -> pa.Array:
        return pa.array([name for name, _ in self._fields])

    @cached_property
    def _field_of_person(self) -> Numbers:
        return self._draw("fields of people").integers(len(self._fields), size=self.size.people)

    @cached_property
    def _field_of_paper(self) -> Numbers:
        return self._draw("fields of papers").integers(len(self._fields), size=self.size.papers)

    @cached_property
    def _year_of_paper(self) -> Numbers:
        recent = self._draw("years").power(3, size=self.size.papers)
        return np.sort(1970 + np.floor(recent * (_NOW - 1970)).astype(np.int64))

    def _draw(self, what: str) -> np.random.Generator:
        """Return a separate random stream for each table, so that none depends on the size of another."""
        return np.random.default_rng([self._seed, *what.encode()])

    def _draw_sentences(self, kind: str, draw: np.random.Generator) -> pa.Array:
        """Return a sentence for each paper, about two different terms of its field."""
        number = self.size.papers
        terms = np.array([term for _, field_terms in self._fields for term in field_terms])
        per_field = len(terms) // len(self._fields)
        base = self._field_of_paper * per_field
        first_term = draw.integers(per_field, size=number)
        second_term = (first_term + draw.integers(1, per_field, size=number)) % per_field
        template_of_paper = draw.integers(len(self._templates[kind]), size=number)
        # All possible sentences are formatted once, and each paper takes its own by index.
        sentences = np.array(
            [
                template.format(terms[first], terms[first // per_field * per_field + second])
                for template in self._templates[kind]
                for first in range(len(terms))
                for second in range(per_field)
            ]
        )
        return pa.array(sentences[(template_of_paper * len(terms) + base + first_term) * per_field + second_term])

    def _draw_acquaintances(self, draw: np.random.Generator, count: int) -> tuple[Numbers, Numbers]:
        source = _draw_skewed(draw, count, self.size.people, 1.3)
        near = self._draw_peers(draw, self._field_of_person[source])
        far = draw.integers(self.size.people, size=count)
        return source, np.where(draw.random(count) < 0.8, near, far)

    def _draw_peers(self, draw: np.random.Generator, fields: Numbers) -> Numbers:
        """Draw a person of each of the fields; few people are drawn often."""
        order, starts = _group_by_label(self._field_of_person, len(self._fields))
        sizes = np.diff(starts)[fields]
        return order[starts[fields] + np.floor(draw.power(0.7, size=len(fields)) * sizes).astype(np.int64)]

    def _build_edges(
        self, from_key: str, from_: pa.Table, source: Numbers, to_key: str, to: pa.Table, target: Numbers
    ) -> pa.Table:
        return pa.table({"from": from_[from_key].take(source), "to": to[to_key].take(target)}).combine_chunks()


def _draw_skewed(draw: np.random.Generator, number: int, among: int, skew: float) -> Numbers:
    """Draw numbers of which a few are frequent: ranks in a shuffled order follow a power of a uniform draw."""
    ranks = np.floor(draw.random(number) ** skew * among).astype(np.int64)
    return draw.permutation(among)[ranks]


def _group_by_label(labels: Numbers, groups: int) -> tuple[Numbers, Numbers]:
    """Return the positions of all labels grouped by label, and where each group starts."""
    order = np.argsort(labels, kind="stable")
    return order, np.searchsorted(labels[order], np.arange(groups + 1))


def _rank_within(labels: Numbers) -> Numbers:
    """Return for each position the number of earlier positions with the same label."""
    order = np.argsort(labels, kind="stable")
    _, first, inverse = np.unique(labels[order], return_index=True, return_inverse=True)
    ranks = np.empty(len(labels), np.int64)
    ranks[order] = np.arange(len(labels)) - first[inverse]
    return ranks


class _PairGenerator(Protocol):
    def __call__(self, count: int, /) -> tuple[Numbers, Numbers]:
        """Return about `count` pairs, some of which may be equal."""
        ...


def _draw_distinct_pairs(
    make: _PairGenerator, number: int, among: int, *, is_loop_free: bool, draw: np.random.Generator | None
) -> tuple[Numbers, Numbers]:
    """Return exactly `number` different pairs: a random choice with `draw`, else the first ones."""
    # Some pairs are duplicates or loops, so more are drawn than needed.
    count = int(number * 1.25) + 64
    while True:
        first, second = make(count)
        if is_loop_free:
            keep = first != second
            first, second = first[keep], second[keep]
        _, positions = np.unique(first * among + second, return_index=True)
        if len(positions) >= number:
            chosen = np.sort(positions if draw is None else draw.permutation(positions)[:number])[:number]
            return first[chosen], second[chosen]
        count = int(count * 1.5)
