"""What a server sends of maintenance is the same value on the client's side."""

import json

from omnigraph.ops.repair_result import FileRepair, HistoryRepair, ManifestRepair, RepairOutcome, RepairResult
from omnigraph.server.client.responses import decode_repair


def test_a_repair_with_every_kind_of_damage_comes_over_the_wire() -> None:
    repair = RepairResult(
        uri="http://server/graphs/people",
        is_confirmed=True,
        manifests=(
            ManifestRepair(
                branch="main",
                path="__manifest",
                reason="it is damaged",
                from_version=7,
                to_version=6,
                to_commit="01KE0000000000000000000002",
                to_time="2026-01-31T12:00:00Z",
                outcome=RepairOutcome.PUBLISHED,
                commit_id="01KE0000000000000000000003",
            ),
        ),
        tables=(),
        histories=(
            HistoryRepair(
                branch="main",
                place="__manifest/data/0.lance",
                reason="it is missing",
                oldest_commit="01KE0000000000000000000002",
                oldest_time="2026-01-31T12:00:00Z",
                outcome=RepairOutcome.REFUSED,
            ),
        ),
        files=(
            FileRepair(
                owner="node:Person",
                place="nodes/1/data/0.lance",
                reason="it is missing",
                nbytes=3,
                outcome=RepairOutcome.PLANNED,
            ),
        ),
        moved_heads={"node:Person": 2**63},
    )

    assert decode_repair(json.loads(json.dumps(repair.to_json())), repair.uri) == repair
