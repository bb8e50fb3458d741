"""The types of JSON responses, derived from the results that routes encode, for the OpenAPI document and for agents."""

from collections.abc import Mapping
from datetime import datetime
from enum import Enum
from functools import cache
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin

import msgspec

from omnigraph.json_struct import JsonStruct, find_type, list_keys
from omnigraph.lang.proposals import Completion, Proposal
from omnigraph.ops.branch import Branch
from omnigraph.ops.catalog_report import CatalogReport, EdgeReport, InterfaceReport, NodeReport, PropertyReport
from omnigraph.ops.check import CheckResult
from omnigraph.ops.cleanup import CleanupResult
from omnigraph.ops.embed import EmbedResult
from omnigraph.ops.entity_history import EntityHistory
from omnigraph.ops.find_entities import EntityMatch, EntityMatches
from omnigraph.ops.indexes import IndexReport
from omnigraph.ops.lint import LintReport, QueryParameterShape, QueryShape
from omnigraph.ops.load_call import LoadResult
from omnigraph.ops.merge_result import MergeResult
from omnigraph.ops.mutate import MutationResult
from omnigraph.ops.neighbours import Degree, NeighbourPage, NodeKey
from omnigraph.ops.optimize import OptimizeResult
from omnigraph.ops.repair_result import RepairResult
from omnigraph.ops.reset import ResetResult
from omnigraph.ops.scrub import ScrubReport
from omnigraph.ops.scrub_damage import DamagedFile
from omnigraph.ops.tag import Tag
from omnigraph.ops.verify import VerifyResult

# Results with a schema of their own in the document, by its name. Any other result inside of them is just an object.
NAMES: Mapping[type[msgspec.Struct], str] = {
    Branch: "BranchAnswer",
    CheckResult: "CheckAnswer",
    CleanupResult: "CleanupAnswer",
    Completion: "CompletionAnswer",
    DamagedFile: "DamagedFileAnswer",
    EmbedResult: "EmbedAnswer",
    EntityHistory: "HistoryAnswer",
    EntityMatches: "SearchAnswer",
    EntityMatch: "MatchAnswer",
    CatalogReport: "CatalogAnswer",
    InterfaceReport: "InterfaceAnswer",
    NodeReport: "NodeTypeAnswer",
    EdgeReport: "EdgeTypeAnswer",
    PropertyReport: "PropertyAnswer",
    LintReport: "LintAnswer",
    QueryShape: "QueryShapeAnswer",
    QueryParameterShape: "ParameterAnswer",
    NeighbourPage: "NeighboursAnswer",
    NodeKey: "NodeKeyAnswer",
    Degree: "DegreeAnswer",
    IndexReport: "IndexAnswer",
    LoadResult: "LoadAnswer",
    MergeResult: "MergeAnswer",
    ResetResult: "ResetAnswer",
    MutationResult: "MutationAnswer",
    OptimizeResult: "OptimizeAnswer",
    Proposal: "ProposalAnswer",
    RepairResult: "RepairAnswer",
    ScrubReport: "GraphScrub",
    Tag: "TagAnswer",
    VerifyResult: "VerifyAnswer",
}


def get_schema_name(type_: type[msgspec.Struct]) -> str:
    """Return the name of a type's schema in the document."""
    return NAMES.get(type_, type_.__name__)


@cache
def define_answer(type_: type[msgspec.Struct]) -> type[msgspec.Struct]:
    """Return a struct with the keys and types of the JSON form of a result, and with its description.

    It requires every key but optional ones, since results are sent with all others. A struct that holds no result is
    returned unchanged.
    """
    types = _map_keys(type_)
    if types == {field.name: field.type for field in msgspec.structs.fields(type_)} and type_ not in NAMES:
        return type_
    optional = {key.name for key in list_keys(type_) if key.is_optional and key.outer is None}
    fields = [
        (name, _exclude_null(item) | msgspec.UnsetType, msgspec.UNSET) if name in optional else (name, item)
        for name, item in types.items()
    ]
    namespace = {"__doc__": type_.__doc__}
    return msgspec.defstruct(get_schema_name(type_), fields, namespace=namespace, kw_only=True)


def _exclude_null(type_: Any) -> Any:  # noqa: ANN401 - any annotation
    """Return the type of an optional key, which is left out instead of null."""
    if get_origin(type_) not in (Union, UnionType):
        return type_
    return Union[tuple(item for item in get_args(type_) if item is not NoneType)]  # noqa: UP007 - as above


def _map_keys(type_: type[msgspec.Struct]) -> dict[str, Any]:
    types: dict[str, Any] = {}
    inner: dict[str, list[Any]] = {}
    for key in list_keys(type_):
        item = _to_json_type(find_type(type_, key.attribute))
        if key.outer is None:
            types[key.name] = item
        else:
            inner.setdefault(key.outer, []).append(item)
            types[key.outer] = _build_object_type(inner[key.outer])
    return types


def _build_object_type(items: list[Any]) -> Any:  # noqa: ANN401 - a type
    """Return the type of an object: with the type of its values if they all have the same."""
    item = items[0] if all(item == items[0] for item in items) else Any
    return dict[str, item]  # type: ignore[valid-type]  # computed


def _to_json_type(type_: Any) -> Any:  # noqa: ANN401 - any annotation
    origin = get_origin(type_)
    items = get_args(type_)
    if origin in (Union, UnionType):
        return Union[tuple(map(_to_json_type, items))]  # noqa: UP007 - its members are only known here
    if origin in (tuple, list):
        return list[_to_json_type(items[0])]  # type: ignore[misc]  # computed
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return dict[str, _to_json_type(items[1])]  # type: ignore[misc]  # computed
    if not isinstance(type_, type):
        return type_
    if issubclass(type_, JsonStruct) and type_ not in NAMES:
        return _build_object_type(list(_map_keys(type_).values()))
    if issubclass(type_, msgspec.Struct):
        return define_answer(type_)
    return str if issubclass(type_, Enum | datetime) else type_
