"""Binding of mutations: a tree and a catalog become typed statements, or all that is wrong with them at once."""


from omnigraph.query.expr import Meta

_ENDS = {"from": Meta.SRC, "to": Meta.DST}
