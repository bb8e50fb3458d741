"""What the environment says becomes settings; what it can't mean is refused."""

import pytest

from omnigraph.config.environment import build_runtime, read_storage_options
from omnigraph.errors import Kind, SettingsError
from omnigraph.faults import ArmedFaults, NoFaults
from omnigraph.options import Options


def test_an_empty_environment_means_the_defaults() -> None:
    runtime = build_runtime({})

    assert runtime.options == Options()
    assert isinstance(runtime.faults, NoFaults)


def test_credentials_are_left_to_the_libraries() -> None:
    environment = {"AWS_ACCESS_KEY_ID": "id", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_REGION": "eu-central-1"}

    assert read_storage_options(environment) == {}


@pytest.mark.parametrize(
    "environment, endpoint",
    [
        ({"AWS_ENDPOINT_URL": "http://general"}, "http://general"),
        ({"AWS_ENDPOINT_URL": "http://general", "AWS_ENDPOINT_URL_S3": "http://s3"}, "http://s3"),
        ({"AWS_ENDPOINT_URL": "http://general", "AWS_ENDPOINT_URL_S3": ""}, "http://general"),
    ],
)
def test_the_endpoint_of_s3_wins_over_the_general_one(environment: dict[str, str], endpoint: str) -> None:
    assert read_storage_options(environment) == {"aws_endpoint": endpoint}


@pytest.mark.parametrize("value, allowed", [("true", "true"), ("1", "true"), ("No", "false"), ("0", "false")])
def test_plain_http_is_a_switch(value: str, allowed: str) -> None:
    assert read_storage_options({"AWS_ALLOW_HTTP": value}) == {"allow_http": allowed}


@pytest.mark.parametrize("value, virtual", [("true", "false"), ("false", "true")])
def test_path_style_is_the_opposite_of_virtual_hosts(value: str, virtual: str) -> None:
    assert read_storage_options({"AWS_S3_FORCE_PATH_STYLE": value}) == {"aws_virtual_hosted_style_request": virtual}


@pytest.mark.parametrize("variable", ["AWS_ALLOW_HTTP", "AWS_S3_FORCE_PATH_STYLE"])
def test_a_switch_that_is_neither_on_nor_off_is_refused(variable: str) -> None:
    with pytest.raises(SettingsError, match=f"{variable} is `maybe`; write true or false") as refused:
        read_storage_options({variable: "maybe"})

    assert refused.value.kind is Kind.USAGE


def test_a_fault_is_armed_by_the_environment() -> None:
    assert isinstance(build_runtime({"OMNIGRAPH_FAULT": "publish.armed=error"}).faults, ArmedFaults)


def test_places_of_blobs_are_separated_by_spaces() -> None:
    runtime = build_runtime({"OMNIGRAPH_BLOB_SOURCES": "file:///srv/pictures  s3://bucket/pictures"})

    assert runtime.options.blob_sources == ("file:///srv/pictures", "s3://bucket/pictures")


@pytest.mark.parametrize("place", ["/srv/pictures", "http://host/", "file:relative", "s3://", "file:///a/../b"])
def test_a_place_of_blobs_that_is_none_is_refused(place: str) -> None:
    with pytest.raises(SettingsError, match="write file:///directory or s3://bucket/prefix") as refused:
        build_runtime({"OMNIGRAPH_BLOB_SOURCES": f"s3://bucket {place}"})

    assert refused.value.facts()["value"] == place


def test_the_time_and_memory_of_a_query_are_settings() -> None:
    options = build_runtime({"OMNIGRAPH_QUERY_SECONDS": "2.5", "OMNIGRAPH_QUERY_MEMORY_BYTES": "1000000"}).options

    assert (options.query_seconds, options.query_memory_bytes) == (2.5, 1_000_000)


def test_a_query_may_be_given_no_limits() -> None:
    options = build_runtime({"OMNIGRAPH_QUERY_SECONDS": "none", "OMNIGRAPH_QUERY_MEMORY_BYTES": "none"}).options

    assert (options.query_seconds, options.query_memory_bytes) == (None, None)


@pytest.mark.parametrize("variable", ["OMNIGRAPH_QUERY_SECONDS", "OMNIGRAPH_QUERY_MEMORY_BYTES"])
@pytest.mark.parametrize("value", ["0", "-1", "soon", "nan", "inf"])
def test_a_limit_of_queries_is_a_number_above_zero(variable: str, value: str) -> None:
    with pytest.raises(SettingsError, match="write a number above 0, or `none`"):
        build_runtime({variable: value})


@pytest.mark.parametrize("days, expected", [("0.5", 0.5), ("none", 36_500), ("1e9", 36_500), ("", 7)])
def test_how_long_keys_are_known_is_set_by_the_environment(days: str, expected: float) -> None:
    options = build_runtime({"OMNIGRAPH_IDEMPOTENCY_DAYS": days, "OMNIGRAPH_IDEMPOTENCY_KEYS": "12"}).options

    assert (options.idempotency_days, options.idempotency_keys) == (expected, 12)


def test_what_reads_keep_is_set_by_the_environment() -> None:
    environment = {
        "OMNIGRAPH_CACHE_BYTES": "1000000",
        "OMNIGRAPH_TRAVERSAL_MODE": "csr",
        "OMNIGRAPH_DERIVED_CACHE": "off",
    }

    options = build_runtime(environment).options

    assert (options.cache_bytes, options.traversal_mode.value, options.derived_cache) == (1_000_000, "csr", False)


@pytest.mark.parametrize(
    "variable, value, way_out",
    [
        ("OMNIGRAPH_CACHE_BYTES", "1 GB", "write a whole number of bytes"),
        ("OMNIGRAPH_CACHE_BYTES", "-1", "write a whole number of bytes"),
        ("OMNIGRAPH_TRAVERSAL_MODE", "magic", "write one of auto, indexed, csr"),
        ("OMNIGRAPH_DERIVED_CACHE", "maybe", "write true or false"),
    ],
)
def test_a_setting_of_reads_that_means_nothing_is_refused(variable: str, value: str, way_out: str) -> None:
    with pytest.raises(SettingsError, match=f"{variable} is `{value}`; {way_out}"):
        build_runtime({variable: value})
