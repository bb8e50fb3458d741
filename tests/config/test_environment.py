"""What the environment says becomes settings; what it can't mean is refused."""

import pytest

from omnigraph.config.environment import BadVariableError, runtime_from, storage_from
from omnigraph.errors import Kind
from omnigraph.faults import ArmedFaults, NoFaults
from omnigraph.options import Options


def test_an_empty_environment_means_the_defaults() -> None:
    runtime = runtime_from({})

    assert runtime.options == Options()
    assert isinstance(runtime.faults, NoFaults)


def test_credentials_are_left_to_the_libraries() -> None:
    environment = {"AWS_ACCESS_KEY_ID": "id", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_REGION": "eu-central-1"}

    assert storage_from(environment) == {}


@pytest.mark.parametrize(
    "environment, endpoint",
    [
        ({"AWS_ENDPOINT_URL": "http://general"}, "http://general"),
        ({"AWS_ENDPOINT_URL": "http://general", "AWS_ENDPOINT_URL_S3": "http://s3"}, "http://s3"),
        ({"AWS_ENDPOINT_URL": "http://general", "AWS_ENDPOINT_URL_S3": ""}, "http://general"),
    ],
)
def test_the_endpoint_of_s3_wins_over_the_general_one(environment: dict[str, str], endpoint: str) -> None:
    assert storage_from(environment) == {"aws_endpoint": endpoint}


@pytest.mark.parametrize("value, allowed", [("true", "true"), ("1", "true"), ("No", "false"), ("0", "false")])
def test_plain_http_is_a_switch(value: str, allowed: str) -> None:
    assert storage_from({"AWS_ALLOW_HTTP": value}) == {"allow_http": allowed}


@pytest.mark.parametrize("value, virtual", [("true", "false"), ("false", "true")])
def test_path_style_is_the_opposite_of_virtual_hosts(value: str, virtual: str) -> None:
    assert storage_from({"AWS_S3_FORCE_PATH_STYLE": value}) == {"aws_virtual_hosted_style_request": virtual}


@pytest.mark.parametrize("variable", ["AWS_ALLOW_HTTP", "AWS_S3_FORCE_PATH_STYLE"])
def test_a_switch_that_is_neither_on_nor_off_is_refused(variable: str) -> None:
    with pytest.raises(BadVariableError, match=f"{variable} is `maybe`; write true or false") as refused:
        storage_from({variable: "maybe"})

    assert refused.value.kind is Kind.USAGE


def test_a_fault_is_armed_by_the_environment() -> None:
    assert isinstance(runtime_from({"OMNIGRAPH_FAULT": "publish.armed=error"}).faults, ArmedFaults)
