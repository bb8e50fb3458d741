"""A notebook as a script: from a graph to data frames, and from those to plots.

Each `# %%` begins a cell, for editors that know them; `python examples/analysis.py` runs all of it. It needs
`pip install 'omnigraph[frames]'`, and `pip install matplotlib` for the plots, which are left out without it.
"""

# %% The made-up library of `omnigraph demo --small`, in a graph of its own. Tables of Arrow are loaded as they are.
import tempfile
from importlib import resources
from importlib.util import find_spec
from pathlib import Path

import polars as pl

import omnigraph as og
from omnigraph.demo.synthetic_data import SMALL, SyntheticData

place = tempfile.TemporaryDirectory(prefix="omnigraph-analysis-")  # it goes with the process
made = SyntheticData(SMALL).build_tables()
schema = resources.files("omnigraph.demo").joinpath("schema.pg").read_text("utf-8")
graph = og.create_graph(f"{place.name}/library.omni", schema, actor="analyst")
loaded = graph.load(
    nodes={name: made[name] for name in ("Person", "Company", "Paper")},
    edges={name: made[name] for name in ("Knows", "WorksAt", "Wrote", "Cites")},
    mode="append",
    actor="analyst",
)
print("{:,} nodes and {:,} edges are loaded".format(*loaded.affected))

# %% pandas: how many papers each field has in each decade. The query counts; pandas turns the table.
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

# %% polars: do large companies publish more, or only as much as they have people?
companies = graph.query("""
    query companies() {
        match { $p: Person  $p worksAt $c  $p wrote $d }
        return { $c.name as company, $c.sector as sector, count(distinct $p) as authors, count(distinct $d) as papers }
        order { papers desc }
    }
""").to_polars()
each = companies.with_columns((pl.col("papers") / pl.col("authors")).round(2).alias("each"))
print(each.head(5))
print(each.group_by("sector").agg(pl.col("papers").sum(), pl.col("each").mean().round(2)).sort("sector"))

# %% An algorithm, and its answer beside properties: which papers are central, and how old are they?
ranks = pl.from_arrow(graph.algorithms.pagerank("Cites").to_arrow())
titles = graph.query("""
    query titles() {
        match { $p: Paper }
        return { $p.doi as id, $p.title as title, $p.year as year }
    }
""").to_polars()
assert isinstance(ranks, pl.DataFrame)  # noqa: S101 - of a table
central = titles.join(ranks, on="id").sort("rank", "id", descending=[True, False])
print(central.select("title", "year", "rank").head(5))

# %% The past is data, too: the same question, before and after a change.
before = graph.snapshot().commit.id
first = central["id"][0]
retract = "query retract($doi: String) { delete Paper where doi = $doi }"
graph.mutate(retract, params={"doi": first}, actor="analyst", message="the most central paper is withdrawn")
count = "query citations() { match { $a: Paper  $a cites $b } return { count(*) as citations } }"
then, now = (graph.query(count, snapshot=state).rows()[0]["citations"] for state in (before, None))
print(f"without {first} there are {then - now} citations fewer")

# %% Plots, where there is matplotlib.
if find_spec("matplotlib") is None:
    print("no plots: pip install matplotlib")
else:
    import matplotlib as mpl

    mpl.use("agg")  # into a file, whether or not there is a screen
    from matplotlib import pyplot as plt

    figure, (left, middle, right) = plt.subplots(1, 3, figsize=(15, 4), layout="constrained")
    decades.sum(axis=1).plot.bar(ax=left, title="papers by decade")
    middle.scatter(companies["authors"], companies["papers"])
    middle.set(title="companies", xlabel="authors", ylabel="papers")
    right.scatter(central["year"], central["rank"], s=6)
    right.set(title="older papers are more central", xlabel="year", ylabel="PageRank")
    figure.savefig("analysis.png")
    print(f"plots: {Path('analysis.png').absolute()}")
