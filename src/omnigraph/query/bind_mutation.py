"""Binding of mutations: a tree and a catalog become typed statements, or all that is wrong with them at once."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import assert_never

from omnigraph.lang import query_ast as ast
from omnigraph.lang.diagnostics import Checked
from omnigraph.lang.literals import Name, NullLiteral
from omnigraph.query.bind_expr import bind_predicate
from omnigraph.query.bind_stored import Slot, StoredValues
from omnigraph.query.expr import EdgeRef, EntityType, Expr, Identity, Meta, NodeRef, Prop
from omnigraph.query.mutation_ir import (
    ROW,
    Assign,
    Delete,
    InsertEdge,
    InsertNode,
    MutationQuery,
    Statement,
    StoredValue,
    Update,
)
from omnigraph.query.scope import Params, Reference, declare_params, unknown_property
from omnigraph.schema.catalog import AnyType, Catalog, EdgeType, NodeType
from omnigraph.schema.findings import Findings, did_you_mean, listed
from omnigraph.schema.types import Scalar

_ENDS = {"from": Meta.SRC, "to": Meta.DST}
