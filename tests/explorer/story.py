"""The story that the explorer's tests and screenshots tell: a company's graph, and an agent's branch to be reviewed."""

import json
import random
from base64 import b64encode
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import omnigraph as og
from omnigraph.config.tokens import format_token_entry
from omnigraph.ids import SystemIds
from omnigraph.runtime import Runtime
from worlds import FAST

BRANCH = "agent/enrich"
ACTORS = ("ada", "agent-7", "rita", "nil")
TOKENS = {actor: f"og_{actor}_{'x' * 40}" for actor in ACTORS}
SCHEMA = """// Who works where and on what, and who knows whom.
node Person {
    name: String
    role: enum(engineer, designer, manager, researcher) @index
    age: I32?
    email: String? @unique
    city: String?
    bio: String? @index
    @key(name)
    @range(age, 0..150)
    @check(email, "^[^@]+@[^@]+$")
}

node Company {
    name: String
    founded: I32?
    @key(name)
}

node Project {
    name: String
    budget: I64?
    plan: Blob?
    @key(name)
}

edge Knows: Person -> Person {
    since: Date?
    weight: F64 @default(1.0)
    @key(src, dst)
}

// A person has at most one employer.
edge WorksAt: Person -> Company @card(0..1) {
    title: String?
}

edge WorksOn: Person -> Project {
    hours: I32?
    @key(src, dst)
}
"""
POLICIES = """
@id("ada keeps the place") permit(principal == Actor::"ada", action, resource);
@id("the agent proposes") permit(
  principal == Actor::"agent-7",
  action in [Action::"read", Action::"change", Action::"branch_create", Action::"graph_list"], resource
);
@id("rita reads") permit(principal == Actor::"rita", action in [Action::"read", Action::"graph_list"], resource);
"""
STORED = """query colleagues($name: String) @description("With whom somebody works.") {
  match { $p: Person { name: $name } $p worksAt $c $other worksAt $c $other != $p }
  return { $other.name, $c.name as company }
}
"""
SETTINGS = """[server]
bind = "127.0.0.1:0"
tokens = "tokens.toml"
policies = "policies"
drain_seconds = 5
workers = 1

[limits]
body_seconds = 60
memory_bytes = 100_000_000

[graphs.social]
uri = "social.omni"
queries = "queries"
"""
PEOPLE = [
    "Ada",
    "Alan",
    "Barbara",
    "Claude",
    "Dorothy",
    "Edsger",
    "Frances",
    "Grace",
    "Hedy",
    "Ivan",
    "Jean",
    "Katherine",
    "Leslie",
    "Margaret",
    "Niklaus",
    "Ole",
    "Radia",
    "Shafi",
    "Tony",
    "Ursula",
    "Vint",
    "Whitfield",
]
COMPANIES = {"Acme": 1999, "Initech": 2008, "Hooli": 2012, "Tyrell": 1982}
PROJECTS = {"Apollo": 900_000, "Borealis": 240_000, "Cassini": 410_000, "Daedalus": 75_000, "Euclid": 130_000}
PLAN = bytes(range(256)) * 40
CITIES = ("Bern", "Delft", "Lagos", "Osaka", "Porto")
ROLES = ("engineer", "designer", "manager", "researcher")


class StoryClock:
    """A clock that is set by the story, so that its commits lie on different days."""

    def __init__(self, start: datetime) -> None:
        self.at = start

    def now(self) -> datetime:
        self.at += timedelta(milliseconds=1)
        return self.at

    def monotonic(self) -> float:
        return self.at.timestamp()

    def sleep(self, seconds: float) -> None:
        self.at += timedelta(seconds=seconds)


@dataclass
class Story:
    """The graph, its home for a server, and a clock to make later commits with."""

    graph: og.Graph
    home: Path
    clock: StoryClock


def records() -> Iterator[dict[str, object]]:
    """People, where they work, on what, and whom they know; the same every time."""
    dice = random.Random(7)
    for name, founded in COMPANIES.items():
        yield {"type": "Company", "data": {"name": name, "founded": founded}}
    for name, budget in PROJECTS.items():
        plan = f"base64:{b64encode(PLAN).decode()}" if name == "Apollo" else None
        yield {"type": "Project", "data": {"name": name, "budget": budget, "plan": plan}}
    people = [one for one in PEOPLE if one not in ("Radia", "Whitfield")]
    for place, name in enumerate(people):
        yield {
            "type": "Person",
            "data": {
                "name": name,
                "role": ROLES[place % 4],
                "age": 28 + dice.randrange(30),
                "email": f"{name.lower()}@example.org",
                "city": dice.choice(CITIES),
                "bio": f"{name} works on {dice.choice(('compilers', 'networks', 'proofs', 'telescopes'))}.",
            },
        }
        yield {
            "edge": "WorksAt",
            "from": name,
            "to": list(COMPANIES)[place // 5 % 4],
            "data": {"title": ROLES[place % 4]},
        }
        yield {"edge": "WorksOn", "from": name, "to": list(PROJECTS)[place * 7 % 5], "data": {"hours": 8 + place % 5}}
        beside = people[(place + 1) % 5 + place // 5 * 5 if place % 5 < 4 else place - 3]
        for other in sorted({beside, dice.choice(people)} - {name}):
            if other in people:
                yield {"edge": "Knows", "from": name, "to": other, "data": {"since": f"20{10 + place % 15}-05-04"}}


def build_story(home: Path, today: datetime | None = None) -> Story:
    """A graph of three days: its load, yesterday's edits on main, and an agent's branch with two conflicts."""
    home.mkdir(parents=True, exist_ok=True)
    start = today or datetime(2026, 3, 12, 9, tzinfo=UTC)
    clock = StoryClock(start - timedelta(days=3))
    runtime = Runtime(clock=clock, ids=SystemIds(clock), options=FAST)
    graph = og.create_graph(str(home / "social.omni"), SCHEMA, runtime=runtime, actor="ops")
    data = home / "social.jsonl"
    data.write_text("".join(json.dumps(one) + "\n" for one in records()), encoding="utf-8")
    graph.load(data, mode="append", actor="ops", message="the people of four companies")
    clock.at = start - timedelta(days=1)
    graph.branches.create(BRANCH, actor="agent-7")
    write = graph.mutate
    write('query q() { update Person set { age: 39 } where name = "Ada" }', actor="ada", message="Ada had her birthday")
    clock.at += timedelta(hours=3)
    write(
        'query q() { update Person set { city: "Zurich" } where name = "Grace" }',
        actor="ada",
        message="Grace moved to Zurich",
    )
    clock.at = start - timedelta(hours=2)
    propose(graph, clock, home)
    lay_out(home)
    return Story(graph=graph, home=home, clock=clock)


def propose(graph: og.Graph, clock: StoryClock, home: Path) -> None:
    """What the agent did on its branch: additions, corrections, a deletion, two values that main has changed too."""
    add = home / "found.jsonl"
    found: list[dict[str, object]] = [
        {
            "type": "Person",
            "data": {"name": name, "role": "researcher", "city": "Delft", "email": f"{name.lower()}@example.org"},
        }
        for name in ("Radia", "Whitfield")
    ]
    found += [
        {"edge": "WorksAt", "from": "Radia", "to": "Hooli", "data": {"title": "fellow"}},
        {"edge": "WorksOn", "from": "Radia", "to": "Cassini", "data": {"hours": 20}},
        {"edge": "Knows", "from": "Radia", "to": "Ada"},
        {"edge": "Knows", "from": "Whitfield", "to": "Radia"},
    ]
    add.write_text("".join(json.dumps(one) + "\n" for one in found), encoding="utf-8")
    graph.load(add, mode="merge", branch=BRANCH, actor="agent-7", message="people found in the conference programme")
    texts = {
        "ages and cities from the register": (
            'query q() { update Person set { age: 40 } where name = "Ada"'
            ' update Person set { city: "Kyoto" } where name = "Grace" }'
        ),
        "budgets of this year": 'query q() { update Project set { budget: 455000 } where name = "Cassini" }',
        "Alan leads now": 'query q() { update Person set { role: "manager" } where name = "Alan" }',
        "Ole has left": 'query q() { delete Person where name = "Ole" }',
    }
    for message, text in texts.items():
        clock.at += timedelta(minutes=11)
        graph.mutate(text, branch=BRANCH, actor="agent-7", message=message)


def lay_out(home: Path) -> None:
    """Tokens, policies, stored queries and settings, as an operator lays them out."""
    write_tokens(home, ACTORS)
    for folder, name, text in (("policies", "all.cedar", POLICIES), ("queries", "reads.gq", STORED)):
        (home / folder).mkdir(exist_ok=True)
        (home / folder / name).write_text(text, encoding="utf-8")
    (home / "omnigraph.toml").write_text(SETTINGS, encoding="utf-8")


def write_tokens(home: Path, actors: tuple[str, ...]) -> None:
    """The tokens file, with those actors."""
    path = home / "tokens.toml"
    entries = [format_token_entry(TOKENS[one], one, (f"{one}s",)) for one in actors]
    path.write_text("".join(entries), encoding="utf-8")
    path.chmod(0o600)
