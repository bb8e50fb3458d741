"""What strangers and tokens without rights have tried before, each with the tests that hold it.

A test that is renamed or removed is missed here, so that no attack is forgotten.
"""

import ast
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
ATTACKS = {
    "answers that wait for an acknowledgement": [
        "server/test_strangers.py::test_an_answer_does_not_wait_for_an_acknowledgement"
    ],
    "plans that take longer than their budget": [
        "engine/test_planning_work.py::test_planning_stops_when_the_caller_leaves",
        "engine/test_planner.py::test_a_chain_of_hops_as_long_as_a_text_allows_can_be_planned_and_run",
        "server/test_hostile.py::test_a_query_that_would_need_the_whole_machine_is_refused_or_answered",
    ],
    "a shutdown that work keeps from ending": [
        "hostile/test_shutdown.py::test_a_query_that_never_ends_does_not_keep_the_server"
    ],
    "rows of a forbidden branch by the number of a manifest version": [
        "contracts/test_policy_gate.py::test_a_state_of_a_forbidden_branch_is_forbidden_however_it_is_named",
        "contracts/test_policy_gate.py::test_the_newest_state_of_a_branch_is_its_own",
        "contracts/test_policy_gate.py::test_the_past_of_another_branch_is_read_with_its_own_right",
    ],
    "reading by a merge or by the condition of a write": [
        "contracts/test_policy_gate.py::test_a_verb_needs_exactly_what_the_table_says",
        "contracts/test_policy_gate.py::test_a_condition_of_a_write_needs_the_right_to_read",
    ],
    "memory that follows what strangers send": [
        "server/test_strangers.py::test_made_up_methods_share_one_label",
        "server/test_strangers.py::test_decisions_about_long_names_are_not_kept",
        "hostile/test_kept_memory.py::test_long_queries_leave_fewer_plans_than_short_ones",
    ],
    "bodies that hold up the event loop": [
        "server/test_strangers.py::test_a_large_body_does_not_hold_up_other_requests"
    ],
    "connections that use up the files": [
        "server/test_strangers.py::test_connections_leave_file_descriptors_to_the_graphs",
        "server/test_connections.py::test_a_connection_beyond_the_limit_takes_the_place_of_the_one_that_idles_longest",
        "hostile/test_full_server.py::test_health_is_answered_where_everything_else_is_refused",
    ],
    "parameters that are not known": [
        "server/test_strangers.py::test_an_unknown_parameter_is_refused_with_the_one_that_was_meant"
    ],
    "forged cursors and numbers": [
        "server/test_strangers.py::test_a_forged_position_is_a_bad_cursor",
        "server/test_strangers.py::test_a_cursor_that_was_cut_is_a_bad_cursor",
        "server/test_strangers.py::test_a_number_of_versions_beyond_all_is_a_bad_request",
    ],
    "names that are hidden": [
        "hostile/test_hidden_names.py::test_no_route_names_what_the_reader_may_not_read",
        "hostile/test_hidden_names.py::test_metrics_name_only_graphs_that_the_actor_may_see",
    ],
    "streams of revoked tokens": [
        "hostile/test_revocation.py::test_an_export_of_a_revoked_token_has_no_end",
        "hostile/test_revocation.py::test_an_export_that_a_policy_forbids_has_no_end",
    ],
    "methods and origins": [
        "server/test_strangers.py::test_a_wrong_method_learns_the_right_ones",
        "server/test_strangers.py::test_a_load_balancer_may_ask_by_head",
        "server/test_limits.py::test_a_page_of_another_program_of_this_machine_gets_no_answer",
    ],
    "hidden rows, at every door": [
        "hostile/test_hidden_rows.py::test_no_route_tells_graphs_apart_that_differ_in_hidden_rows",
        "hostile/test_hidden_rows.py::test_no_call_tells_graphs_apart_that_differ_in_hidden_rows",
        "hostile/test_hidden_rows.py::test_no_tool_of_an_agent_tells_them_apart",
        "hostile/test_hidden_rows.py::test_the_metrics_have_no_line_about_a_graph_with_hidden_rows",
        "ops/test_hidden_rows.py::test_a_type_is_not_renamed_out_of_the_rules_or_into_them",
    ],
    "graphs that a token should not create or delete": [
        "server/test_graph_root.py::test_a_policy_about_every_action_does_not_grant_it",
        "server/test_graph_root.py::test_a_name_can_not_lead_out_of_the_root",
        "server/test_graph_root.py::test_there_is_a_limit_of_graphs",
    ],
    "values in traces": [
        "server/test_traces.py::test_no_value_text_or_message_is_in_a_trace",
        "server/test_traces.py::test_a_stranger_makes_no_spans",
    ],
}


@cache
def find_tests(file: str) -> frozenset[str]:
    """The names of the tests of a file."""
    tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
    return frozenset(node.name for node in tree.body if isinstance(node, ast.FunctionDef))


@pytest.mark.parametrize("attack", ATTACKS)
def test_every_attack_of_before_has_its_tests(attack: str) -> None:
    places = [place.split("::") for place in ATTACKS[attack]]

    assert [f"{file}::{name}" for file, name in places if name not in find_tests(file)] == []
