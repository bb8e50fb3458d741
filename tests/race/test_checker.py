"""The checker itself: it passes what is right, and names what is planted."""

import pytest

from race.checker import Txn, anomalies


def txn(name: str, reads: dict[str, list[str]], appends: dict[str, str], at: float = 0, outcome: str = "ok") -> Txn:
    return Txn(name, at, at + 0.5, outcome, reads, appends)


CLEAN = [txn("a", {"x": []}, {"x": "1"}, 0), txn("b", {"x": ["1"]}, {"x": "2"}, 1), txn("c", {"x": ["1", "2"]}, {}, 2)]


def test_a_serial_history_is_clean() -> None:
    assert anomalies(CLEAN, {"x": ["1", "2"]}) == []


def test_overlapping_transactions_may_take_effect_in_either_order() -> None:
    history = [Txn("a", 0, 9, "ok", {"x": ["2"]}, {"x": "1"}), Txn("b", 0, 9, "ok", {"x": []}, {"x": "2"})]

    assert anomalies(history, {"x": ["2", "1"]}) == []


def test_an_unknown_outcome_may_have_happened_or_not() -> None:
    history = [txn("a", {"x": []}, {"x": "1"}, 0, "unknown"), txn("b", {"x": ["1"]}, {}, 1)]

    assert anomalies(history, {"x": ["1"]}) == []
    assert anomalies(history[:1], {"x": []}) == []


PLANTED: dict[str, tuple[list[Txn], dict[str, list[str]]]] = {
    "lost write": ([txn("a", {"x": []}, {"x": "1"})], {"x": []}),
    "lost update": ([txn("a", {"x": []}, {"x": "1"}, 0), txn("b", {"x": []}, {"x": "2"}, 0)], {"x": ["1", "2"]}),
    "aborted read": ([txn("a", {}, {"x": "1"}, 0, "fail"), txn("b", {"x": ["1"]}, {}, 1)], {"x": ["1"]}),
    "duplicate": ([txn("a", {"x": []}, {"x": "1"})], {"x": ["1", "1"]}),
    "garbage": ([txn("a", {"x": ["7"]}, {})], {"x": ["7"]}),
    "incompatible order": (
        [txn("a", {}, {"x": "1"}), txn("b", {}, {"x": "2"}), txn("c", {"x": ["2"]}, {}, 1)],
        {"x": ["1", "2"]},
    ),
    "skew": (
        [txn("a", {"x": [], "y": []}, {"x": "1"}), txn("b", {"x": [], "y": []}, {"y": "2"})],
        {"x": ["1"], "y": ["2"]},
    ),
    "realtime": (
        [txn("a", {"x": []}, {"x": "1"}, 0), txn("b", {"x": []}, {}, 1)],
        {"x": ["1"]},
    ),
}


@pytest.mark.parametrize("anomaly", PLANTED)
def test_a_planted_anomaly_is_found(anomaly: str) -> None:
    history, final = PLANTED[anomaly]

    found = anomalies(history, final)

    assert any(anomaly in line for line in found), found
