"""On an object store nothing but other objects knows that a manifest had newer versions: they tell, where they do."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

import omnigraph as og
from collecting import DAY
from omnigraph.errors import CorruptError
from omnigraph.ops.check_findings import FindingSeverity
from omnigraph.runtime import Runtime
from raised_codes import has_code
from rolling_back import WITNESSES, roll_back
from s3_server import fresh_uri, s3_server
from worlds import FAST


@pytest.fixture(scope="module")
def settings() -> Iterator[Runtime]:
    with s3_server() as storage:
        yield Runtime(options=replace(FAST, storage=storage, heartbeat_seconds=600, lease_seconds=3600))


def errors(uri: str, settings: Runtime) -> list[tuple[str, str]]:
    found = og.check_graph(uri, runtime=settings).findings
    return [(one.code, one.thing) for one in found if one.severity is FindingSeverity.ERROR]


@pytest.mark.parametrize("witness", WITNESSES)
def test_a_lost_version_on_s3_is_noticed_by_what_else_knows_of_it(witness: str, settings: Runtime) -> None:
    uri, branch = fresh_uri(), WITNESSES[witness][1]
    graph = roll_back(uri, witness, settings)

    found = errors(uri, settings)
    with pytest.raises(CorruptError, check=has_code("manifest_rolled_back")):
        graph.cleanup(keep=1, grace=0 * DAY)
    og.repair_graph(uri, confirm=True, force=True, runtime=settings)

    assert found == [("manifest_rolled_back", branch)]
    assert errors(uri, settings) == []
