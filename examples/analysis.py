"""Show analysis in a notebook as a script: from a graph to data frames, and from those to plots.

Each `# %%` begins a cell, for editors that support cells; `python examples/analysis.py` runs all of them. It needs
`pip install 'omnigraph[frames]'`, and `pip install matplotlib` for the plots, which are skipped without it.
"""

# %% The synthetic library of `omnigraph demo --small`, in its own graph. Arrow tables are loaded without conversion.
import tempfile
from importlib import resources
from importlib.util import find_spec
from pathlib import Path

import polars as pl

import omnigraph as og
from omnigraph.demo.synthetic_data import SMALL, SyntheticData

directory = tempfile.TemporaryDirectory(prefix="omnigraph-analysis-")  # removed when the process ends
tables = SyntheticData(SMALL).build_tables()
schema = resources.files("omnigraph.demo").joinpath("schema.pg").read_text("utf-8")
graph = og.create_graph(f"{directory.name}/library.omni", schema, actor="analyst")
loaded = graph.load(
    nodes={name: tables[name] for name in ("Person", "Company", "Paper")},
    edges={name: tables[name] for name in ("Knows", "WorksAt", "Wrote", "Cites")},
    mode="append",
    actor="analyst",
)
print("{:,} nodes and {:,} edges are loaded".format(*loaded.affected))

# %% pandas: the number of papers by field and decade. The query counts; pandas pivots the table.
papers = graph.query("""
    query papers_by_year() {
        match { $p: Paper }
        return { $p.field as field, $p.year as year, count(*) as papers }
        order { year, field }
    }
""").to_pandas()
papers["decade"] = papers["year"] // 10 * 10
decades = papers.pivot_table(index="decade", columns="field", values="papers", aggfunc="sum", fill_value=0)
print(decades.T.to_string())

# %% polars: do large companies publish more per author, or only more in total?
companies = graph.query("""
    query companies() {
        match { $p: Person  $p worksAt $c  $p wrote $d }
        return { $c.name as company, $c.sector as sector, count(distinct $p) as authors, count(distinct $d) as papers }
        order { papers desc }
    }
""").to_polars()
per_author = companies.with_columns((pl.col("papers") / pl.col("authors")).round(2).alias("per_author"))
print(per_author.head(5))
print(per_author.group_by("sector").agg(pl.col("papers").sum(), pl.col("per_author").mean().round(2)).sort("sector"))

# %% An algorithm, and its result joined with properties: which papers are central, and how old are they?
ranks = pl.from_arrow(graph.algorithms.pagerank("Cites").to_arrow())
titles = graph.query("""
    query titles() {
        match { $p: Paper }
        return { $p.doi as id, $p.title as title, $p.year as year }
    }
""").to_polars()
assert isinstance(ranks, pl.DataFrame)  # noqa: S101 - `from_arrow` returns a series only for an array
central = titles.join(ranks, on="id").sort("rank", "id", descending=[True, False])
print(central.select("title", "year", "rank").head(5))

# %% History can be queried, too: the same query, before and after a change.
before = graph.snapshot().commit.id
first = central["id"][0]
retract = "query retract($doi: String) { delete Paper where doi = $doi }"
graph.mutate(retract, params={"doi": first}, actor="analyst", message="the most central paper is withdrawn")
count = "query citations() { match { $a: Paper  $a cites $b } return { count(*) as citations } }"
then, now = (graph.query(count, snapshot=state).rows()[0]["citations"] for state in (before, None))
print(f"without {first} there are {then - now} fewer citations")

# %% Plots, if matplotlib is installed.
if find_spec("matplotlib") is None:
    print("no plots: pip install matplotlib")
else:
    import matplotlib as mpl

    mpl.use("agg")  # draws into a file, so it needs no display
    from matplotlib import pyplot as plt

    figure, (left, middle, right) = plt.subplots(1, 3, figsize=(15, 4), layout="constrained")
    decades.sum(axis=1).plot.bar(ax=left, title="papers by decade")
    middle.scatter(companies["authors"], companies["papers"])
    middle.set(title="companies", xlabel="authors", ylabel="papers")
    right.scatter(central["year"], central["rank"], s=6)
    right.set(title="older papers are more central", xlabel="year", ylabel="PageRank")
    figure.savefig("analysis.png")
    print(f"plots: {Path('analysis.png').absolute()}")
