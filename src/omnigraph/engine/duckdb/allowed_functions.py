"""The functions that a SQL statement may call: those that compute a value from their arguments and reach nothing else.

It is a list of the allowed ones, so that what a new release of DuckDB adds is refused until it was looked at. Missing
on purpose: whatever tells settings, versions or files of the host (`current_setting`, `version`), runs or plans other
texts (`json_serialize_plan`), waits (`sleep_ms`), changes the state of the connection (`setseed`), or makes a huge
value of a small one in memory that DuckDB does not count (`repeat`, `lpad`, `list_resize`, `printf`,
`reservoir_quantile`; `repeat('x', 1500000000)` took 3 GB with a limit of 200 MB).

Of the others, 20 aggregates and 16 functions of values were tried with arguments that make their values as large as
possible. Aggregates count what they hold. Two functions can make a value as large as the product of two others, in one
step that nothing can stop: `replace` and `regexp_replace`. Distances of two texts compare each character with each:
`damerau_levenshtein` of two texts of 20,000 took 3 GB, and `levenshtein` of 100,000 ran for 34 s after its deadline.
These check the sizes of their arguments first. What is left, such as lists that become JSON, is stopped when the
process grows (`process_memory`).
"""

import duckdb

_NAMES = """
abs acos acosh add age aggregate ago any_value apply approx_count_distinct approx_quantile approx_top_k arg_max
arg_max_null arg_max_nulls_last arg_min arg_min_null arg_min_nulls_last argmax argmin array_agg array_aggr
array_aggregate array_append array_apply array_cat array_concat array_contains array_cosine_distance
array_cosine_similarity array_cross_product array_distance array_distinct array_dot_product array_extract array_filter
array_grade_up array_has array_has_all array_has_any array_indexof array_inner_product array_intersect array_length
array_negative_dot_product array_negative_inner_product array_pop_back array_pop_front array_position array_prepend
array_push_back array_push_front array_reduce array_reverse array_reverse_sort array_select array_slice array_sort
array_to_json array_to_string array_transform array_unique array_value array_where array_zip ascii asin asinh
assert_true atan atan2 atanh avg base64 bin binom bit_and bit_count bit_length bit_or bit_position bit_xor
bitstring_agg bool_and bool_or cardinality cbrt ceil ceiling century char_length character_length chr concat concat_ws
contains corr cos cosh cot count count_if count_star countif covar_pop covar_samp cume_dist current_date
current_localtime current_localtimestamp damerau_levenshtein date_add date_diff date_part date_sub date_trunc datediff
datepart datesub datetrunc day dayname dayofmonth dayofweek dayofyear days_in_month decade decode degrees dense_rank
divide editdist3 element_at encode ends_with entropy epoch epoch_ms epoch_ns epoch_us era error even exp favg fdiv
fill filter first first_value flatten floor fmod format_bytes formatreadabledecimalsize formatreadablesize from_base64
from_binary from_hex from_json from_json_strict fsum gamma gcd gen_random_uuid geomean geometric_mean get_bit
get_current_time get_current_timestamp grade_up greatest greatest_common_divisor group_concat hamming hash hex
histogram histogram_exact hour if ilike_escape instr isfinite isinf isnan isodow
isoyear jaccard jaro_similarity jaro_winkler_similarity json json_array json_array_length json_contains
json_deep_merge json_exists json_extract json_extract_path json_extract_path_text json_extract_string json_group_array
json_group_object json_group_structure json_insert json_keys json_merge_patch json_merge_patch_diff json_normalize
json_object json_pretty json_quote json_remove json_replace json_set json_strip_nulls json_structure json_transform
json_transform_strict json_type json_valid json_value julian kahan_sum kurtosis kurtosis_pop lag last last_day
last_value lcase lcm lead least least_common_multiple left left_grapheme len length length_grapheme levenshtein lgamma
like_escape list list_aggr list_aggregate list_any_value list_append list_apply list_approx_count_distinct list_avg
list_bit_and list_bit_or list_bit_xor list_bool_and list_bool_or list_cat list_concat list_contains
list_cosine_distance list_cosine_similarity list_count list_distance list_distinct list_dot_product list_element
list_entropy list_extract list_filter list_first list_grade_up list_has list_has_all list_has_any list_histogram
list_indexof list_inner_product list_intersect list_kurtosis list_kurtosis_pop list_last list_mad list_max list_median
list_min list_mode list_negative_dot_product list_negative_inner_product list_pack list_position list_prepend
list_product list_reduce list_reverse list_reverse_sort list_select list_sem list_skewness list_slice list_sort
list_stddev_pop list_stddev_samp list_string_agg list_sum list_transform list_unique list_value list_var_pop
list_var_samp list_where list_zip listagg ln log log10 log2 lower ltrim lttb mad make_date make_time make_timestamp
make_timestamp_ms make_timestamp_ns make_timestamptz map map_concat map_contains map_contains_entry map_contains_value
map_entries map_extract map_extract_value map_from_entries map_keys map_values max max_by md5 md5_number
md5_number_lower md5_number_upper mean median microsecond millennium millisecond min min_by minute mismatches mod mode
month monthname multiply nanosecond nextafter nfc_normalize normalized_interval not_ilike_escape not_like_escape now
nth_value ntile nullif octet_length ord overlay parse_dirname parse_dirpath parse_filename parse_path path_join
percent_rank pi position pow power prefix product quantile quantile_cont quantile_disc quarter radians random rank
rank_dense reduce regexp_escape regexp_extract regexp_extract_all regexp_full_match regexp_matches regexp_replace
regexp_split_to_array regexp_split_to_table regr_avgx regr_avgy regr_count regr_intercept regr_r2 regr_slope regr_sxx
regr_sxy regr_syy replace reverse right right_grapheme round round_even roundbankers row row_number
row_to_json rtrim second sem set_bit sha1 sha256 sign signbit sin sinh skewness split split_part sqrt
starts_with stddev stddev_pop stddev_samp str_split str_split_regex strftime string_agg string_split
string_split_regex string_to_array strip_accents strlen strpos strptime struct_concat struct_contains struct_extract
struct_extract_at struct_has struct_indexof struct_insert struct_keys struct_pack struct_position struct_update
struct_values substr substring substring_grapheme subtract suffix sum sumkahan tan tanh time_bucket timezone
timezone_hour timezone_minute to_base to_base64 to_binary to_centuries to_days to_decades to_hex to_hours to_json
to_microseconds to_millennia to_milliseconds to_minutes to_months to_quarters to_seconds to_timestamp to_weeks
to_years today transaction_timestamp translate trim trunc try_strptime typeof ucase unbin unhex unicode upper
url_decode url_encode uuid uuid_extract_timestamp uuid_extract_version uuidv4 uuidv7 var_pop var_samp variance wavg
week weekday weekofyear weighted_avg xor year yearweek
"""
SCALAR_FUNCTIONS = frozenset(_NAMES.split())
# `range`, `generate_series` and `unnest` as tables are computed row by row, in bounded memory.
TABLE_FUNCTIONS = frozenset({"generate_series", "json_each", "json_tree", "range", "unnest"})
# The largest value that a replacement may have: `replace(x, 'x', x)` of 60,000 characters would have 3.6 GB.
_MAX_REPLACED_CHARACTERS = 2**28
# The most pairs of characters that a distance compares: a step computes it for up to 2,048 rows, in 7 seconds.
_MAX_COMPARED_CHARACTERS = 2**20


def bound_functions(connection: duckdb.DuckDBPyConnection) -> None:
    """Put functions before those of DuckDB that check how large their result may be before they make it."""
    # At most one match before each character and one at the end, each with its target; also with references such as
    # `\1`, which take two characters each and together insert no more than the source. The product may exceed 64 bits.
    too_large = f"(cast(length(source) as hugeint) + 1) * (length(target) + 1) > {_MAX_REPLACED_CHARACTERS}"
    for name, signatures in _REPLACEMENTS.items():
        message = f"the result of `{name}` may have more than {_MAX_REPLACED_CHARACTERS:,} characters"
        _bound(connection, name, signatures, too_large, message)
    too_long = f"cast(length(a) as hugeint) * length(b) > {_MAX_COMPARED_CHARACTERS}"
    for name, signatures in _DISTANCES.items():
        message = f"`{name}` compares texts whose lengths are at most {_MAX_COMPARED_CHARACTERS:,} if multiplied"
        _bound(connection, name, signatures, too_long, message)


def _bound(
    connection: duckdb.DuckDBPyConnection, name: str, signatures: tuple[str, ...], is_refused: str, message: str
) -> None:
    overloads = [
        # With its schema: a macro that calls its own name is expanded without end.
        f"({arguments}) as case when {is_refused} then error('{message}') else system.main.{name}({arguments}) end"
        for arguments in signatures
    ]
    connection.execute(f"create temp macro {name}{', '.join(overloads)}")


_REPLACEMENTS = {
    "replace": ("source, part, target",),
    "regexp_replace": ("source, part, target", "source, part, target, options"),
}
_DISTANCES = {
    "damerau_levenshtein": ("a, b",),
    "editdist3": ("a, b",),
    "jaro_similarity": ("a, b", "a, b, cutoff"),
    "jaro_winkler_similarity": ("a, b", "a, b, cutoff"),
    "levenshtein": ("a, b",),
}
