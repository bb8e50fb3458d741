"""The environment as settings. Pure: the variables are handed in, so a test brings its own.

Credentials and region (`AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY`, `AWS_SESSION_TOKEN`, `AWS_REGION`, profiles,
roles) are left to the object-store libraries, which read the environment themselves and renew what expires; they are
never copied into our settings. Translated here is only what those libraries don't read, or not in the same way.
"""

from collections.abc import Mapping

from omnigraph.errors import Kind, OmnigraphError
from omnigraph.faults import faults_from
from omnigraph.options import Options
from omnigraph.runtime import Runtime

ENDPOINTS = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")
"""Where S3 is, if not at Amazon; the first that is set counts, as in Amazon's own tools."""
ALLOW_HTTP = "AWS_ALLOW_HTTP"
FORCE_PATH_STYLE = "AWS_S3_FORCE_PATH_STYLE"

_TRUE, _FALSE = frozenset({"1", "true", "yes", "on"}), frozenset({"0", "false", "no", "off"})


class BadVariableError(OmnigraphError):
    """An environment variable has a value that can't be understood."""

    kind = Kind.USAGE
    code = "bad_variable"

    def __init__(self, variable: str, value: str) -> None:
        super().__init__(variable, value)
        self.variable, self.value = variable, value

    def __str__(self) -> str:
        return f"the environment variable {self.variable} is `{self.value}`; write true or false"


def runtime_from(environment: Mapping[str, str]) -> Runtime:
    """The machine's clock and randomness, with the settings and, in a test's process, the faults of an environment."""
    return Runtime(faults=faults_from(environment), options=Options(storage=storage_from(environment)))


def storage_from(environment: Mapping[str, str]) -> dict[str, str]:
    """Options for the object store, by Lance's names; BadVariableError for a switch that is neither on nor off."""
    storage: dict[str, str] = {}
    endpoint = next((environment[name] for name in ENDPOINTS if environment.get(name)), None)
    if endpoint is not None:
        storage["aws_endpoint"] = endpoint
    allow_http = _switch(environment, ALLOW_HTTP)
    if allow_http is not None:
        storage["allow_http"] = str(allow_http).lower()
    force_path_style = _switch(environment, FORCE_PATH_STYLE)
    if force_path_style is not None:
        storage["aws_virtual_hosted_style_request"] = str(not force_path_style).lower()
    return storage


def _switch(environment: Mapping[str, str], variable: str) -> bool | None:
    """Whether a variable says yes or no; None when it is not set."""
    value = environment.get(variable, "")
    if not value:
        return None
    if value.lower() not in _TRUE | _FALSE:
        raise BadVariableError(variable, value)
    return value.lower() in _TRUE
