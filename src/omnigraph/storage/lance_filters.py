"""A correction to how Lance hands filters on.

Lance serialises a filter together with the table's whole schema, and hides the columns whose types the format can't say
behind placeholders. It forgets lists of unsigned integers: a filter on any column of such a table fails. Here they are
hidden too. A test of the substrate turns red when Lance does this itself.
"""

import sys

import lance
import pyarrow as pa

_dataset = sys.modules[lance.LanceDataset.__module__]  # `lance.dataset` is a function of the same name
_known = _dataset._needs_substrait_placeholder  # noqa: SLF001 - there is no public way, see above


def _is_hidden(type_: pa.DataType) -> bool:
    if pa.types.is_list(type_) or pa.types.is_large_list(type_):
        return bool(pa.types.is_unsigned_integer(type_.value_type) or _known(type_))
    return bool(_known(type_))


def correct_filters() -> None:
    """Make filters work on tables with lists of unsigned integers; calling it again changes nothing."""
    setattr(_dataset, "_needs_substrait_placeholder", _is_hidden)  # noqa: B010 - as above
