"""Columns of other tools' Arrow tables without the encodings that say nothing of their values.

Dictionaries (categories and enums of pandas and polars), runs, views of lists, small decimals and Arrow's own
extension types for JSON texts and Bools become the plain column that says the same.
"""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

_IS = pa.types


def to_plain_array(column: pa.Array) -> pa.Array:
    """Return the column without encodings; a column that has none, or any other type, as it is.

    Raises:
        pa.ArrowException: Arrow can't decode it.
    """
    arrow = column.type
    if not _is_encoded(arrow):
        return column
    if _IS.is_dictionary(arrow):
        # Arrow can't take from views of texts, which is how polars keeps its categories.
        values = _cast_views(to_plain_array(column.dictionary))
        return pa.DictionaryArray.from_arrays(column.indices, values).dictionary_decode()
    if _IS.is_run_end_encoded(arrow):
        return to_plain_array(pc.run_end_decode(column))
    if _IS.is_decimal(arrow):
        return column.cast(pa.decimal128(arrow.precision, arrow.scale))
    if isinstance(arrow, pa.BaseExtensionType):
        storage = column.storage
        return storage.cast(pa.bool_()) if arrow.extension_name == "arrow.bool8" else storage
    # Lists are put together anew: Arrow's own cast of a list view gives an array with too few offsets.
    sizes = pc.fill_null(pc.list_value_length(column), 0).to_numpy(zero_copy_only=False)
    offsets = np.zeros(len(column) + 1, np.int64)
    np.cumsum(sizes, out=offsets[1:])
    mask = column.is_null() if column.null_count else None
    return pa.LargeListArray.from_arrays(pa.array(offsets), to_plain_array(column.flatten()), mask=mask)


def _is_encoded(arrow: pa.DataType) -> bool:
    if _IS.is_dictionary(arrow) or _IS.is_run_end_encoded(arrow) or _IS.is_decimal32(arrow) or _IS.is_decimal64(arrow):
        return True
    if isinstance(arrow, pa.BaseExtensionType):
        return arrow.extension_name in ("arrow.json", "arrow.bool8")
    if _IS.is_list_view(arrow) or _IS.is_large_list_view(arrow):
        return True
    is_list = _IS.is_list(arrow) or _IS.is_large_list(arrow) or _IS.is_fixed_size_list(arrow)
    return bool(is_list) and _is_encoded(arrow.value_type)


def _cast_views(values: pa.Array) -> pa.Array:
    if _IS.is_string_view(values.type):
        return values.cast(pa.large_utf8())
    return values.cast(pa.large_binary()) if _IS.is_binary_view(values.type) else values
