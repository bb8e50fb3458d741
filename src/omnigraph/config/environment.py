"""Read engine settings from environment variables. Pure: the variables are an argument, so tests pass their own.

Credentials and region (`AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY`, `AWS_SESSION_TOKEN`, `AWS_REGION`, profiles,
roles) are left to the object-store libraries, which read the environment themselves and renew what expires; they are
never copied into our settings. Only variables that those libraries don't read, or read differently, are translated
here.
"""

import math
from collections.abc import Callable, Mapping
from enum import Enum
from typing import TypeVar

from omnigraph.errors import SettingsError
from omnigraph.faults import read_faults
from omnigraph.options import (
    OPENAI_URL,
    EmbedOptions,
    EmbedProvider,
    Options,
    RerankOptions,
    RerankProvider,
    Traversal,
    UpkeepOptions,
    Verify,
)
from omnigraph.runtime import Runtime
from omnigraph.storage.blob_sources import BlobSourceError, parse_blob_location
from omnigraph.telemetry import PROCESS_TELEMETRY, Telemetry

# The address of S3, if it is not Amazon's; the first variable that is set counts, as in Amazon's own tools.
ENDPOINTS = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")
ALLOW_HTTP = "AWS_ALLOW_HTTP"
FORCE_PATH_STYLE = "AWS_S3_FORCE_PATH_STYLE"
BLOB_SOURCES = "OMNIGRAPH_BLOB_SOURCES"
CACHE_BYTES = "OMNIGRAPH_CACHE_BYTES"
TRAVERSAL_MODE = "OMNIGRAPH_TRAVERSAL_MODE"
DERIVED_CACHE = "OMNIGRAPH_DERIVED_CACHE"
FOLLOW_LINKS = "OMNIGRAPH_FOLLOW_LINKS"
VERIFY = "OMNIGRAPH_VERIFY"
QUERY_SECONDS = "OMNIGRAPH_QUERY_SECONDS"
QUERY_MEMORY_BYTES = "OMNIGRAPH_QUERY_MEMORY_BYTES"
SPILL_BYTES = "OMNIGRAPH_SPILL_BYTES"
THREADS = "OMNIGRAPH_THREADS"
MAINTENANCE = "OMNIGRAPH_MAINTENANCE"
MAINTENANCE_CONCURRENCY = "OMNIGRAPH_MAINTENANCE_CONCURRENCY"
SPARK_BYTES = "OMNIGRAPH_SPARK_BYTES"
IDEMPOTENCY_DAYS = "OMNIGRAPH_IDEMPOTENCY_DAYS"
IDEMPOTENCY_KEYS = "OMNIGRAPH_IDEMPOTENCY_KEYS"
RERANK_PROVIDER = "OMNIGRAPH_RERANK_PROVIDER"
RERANK_URL = "OMNIGRAPH_RERANK_URL"
RERANK_MODEL = "OMNIGRAPH_RERANK_MODEL"
RERANK_KEY = "OMNIGRAPH_RERANK_KEY"
RERANK_TEXTS = "OMNIGRAPH_RERANK_TEXTS"
EMBED_PROVIDER = "OMNIGRAPH_EMBED_PROVIDER"
EMBED_URL = "OMNIGRAPH_EMBED_URL"
EMBED_MODEL = "OMNIGRAPH_EMBED_MODEL"
EMBED_KEY = "OMNIGRAPH_EMBED_KEY"
# OpenAI's own key; it is sent to OpenAI only.
OPENAI_KEY = "OPENAI_API_KEY"

NO_LIMIT = "none"
# A century, which `none` stands for.
MAX_DAYS = 36_500.0

_DEFAULTS = Options()
_TRUE, _FALSE = frozenset({"1", "true", "yes", "on"}), frozenset({"0", "false", "no", "off"})


Number = TypeVar("Number", int, float)
Choice = TypeVar("Choice", bound=Enum)


def build_runtime(environment: Mapping[str, str]) -> Runtime:
    """Build a runtime with the system's clock and randomness, and the settings of an environment.

    In a test's process, the environment may arm faults too.
    """
    derived_cache = _read_switch(environment, DERIVED_CACHE)
    options = Options(
        cache_bytes=_read_bytes(environment, CACHE_BYTES),
        traversal_mode=read_traversal_mode(environment),
        derived_cache=_DEFAULTS.derived_cache if derived_cache is None else derived_cache,
        follow_links=_read_switch(environment, FOLLOW_LINKS) or False,
        verify=read_verify_level(environment),
        storage=read_storage_options(environment),
        blob_sources=read_blob_sources(environment),
        embedding=read_embedding_options(environment),
        reranking=read_reranking_options(environment),
        spark_bytes=_read_bytes(environment, SPARK_BYTES),
        idempotency_days=_read_days(environment, IDEMPOTENCY_DAYS, _DEFAULTS.idempotency_days),
        idempotency_keys=_read_count(environment, IDEMPOTENCY_KEYS, _DEFAULTS.idempotency_keys),
        query_seconds=_read_limit(environment, QUERY_SECONDS, float, _DEFAULTS.query_seconds),
        query_memory_bytes=_read_limit(environment, QUERY_MEMORY_BYTES, int, _DEFAULTS.query_memory_bytes),
        spill_bytes=_read_count(environment, SPILL_BYTES, _DEFAULTS.spill_bytes),
        # 0 is only the default here: as a value of the variable it is refused.
        threads=_read_count(environment, THREADS, 0) or None,
        maintenance=_read_choice(environment, MAINTENANCE, _DEFAULTS.maintenance),
        upkeep=UpkeepOptions(
            concurrency=_read_count(environment, MAINTENANCE_CONCURRENCY, _DEFAULTS.upkeep.concurrency)
        ),
    )
    return Runtime(faults=read_faults(environment), options=options, telemetry=Telemetry(parent=PROCESS_TELEMETRY))


def read_blob_sources(environment: Mapping[str, str]) -> tuple[str, ...]:
    """Return the locations that Blob values may be read from; the variable separates them by spaces.

    Raises:
        SettingsError: One of them is no such location.
    """
    sources = tuple(environment.get(BLOB_SOURCES, "").split())
    for source in sources:
        try:
            parse_blob_location(source)
        except BlobSourceError as error:
            way_out = "write file:///directory or s3://bucket/prefix, several separated by spaces"
            raise SettingsError.bad_variable(BLOB_SOURCES, source, way_out) from error
    return sources


def read_traversal_mode(environment: Mapping[str, str]) -> Traversal:
    """Return how edges are traversed.

    Raises:
        SettingsError: The value is none of the known ones.
    """
    return _read_choice(environment, TRAVERSAL_MODE, _DEFAULTS.traversal_mode)


def read_verify_level(environment: Mapping[str, str]) -> Verify:
    """Return which files are verified at their first read.

    Raises:
        SettingsError: The value is none of the known ones.
    """
    return _read_choice(environment, VERIFY, _DEFAULTS.verify)


def read_embedding_options(environment: Mapping[str, str]) -> EmbedOptions:
    """Return how texts are turned into vectors.

    Raises:
        SettingsError: The provider is none of the known ones.
    """
    provider = _read_choice(environment, EMBED_PROVIDER, EmbedProvider.NONE)
    url = environment.get(EMBED_URL) or None
    # OpenAI's key must not be sent to another server that speaks the same protocol.
    is_openai = (url or OPENAI_URL).rstrip("/") == OPENAI_URL
    key = environment.get(EMBED_KEY) or (environment.get(OPENAI_KEY) if is_openai else None)
    model = environment.get(EMBED_MODEL) or None
    return EmbedOptions(provider=provider, url=url, model=model, key=key or None)


def read_reranking_options(environment: Mapping[str, str]) -> RerankOptions:
    """Return how the relevance of texts is judged.

    Raises:
        SettingsError: The provider is none of the known ones, or the number of texts is none.
    """
    return RerankOptions(
        provider=_read_choice(environment, RERANK_PROVIDER, RerankProvider.NONE),
        url=environment.get(RERANK_URL) or None,
        model=environment.get(RERANK_MODEL) or None,
        key=environment.get(RERANK_KEY) or None,
        max_texts=_read_count(environment, RERANK_TEXTS, _DEFAULTS.reranking.max_texts),
    )


def read_storage_options(environment: Mapping[str, str]) -> dict[str, str]:
    """Return options for the object store, under Lance's names.

    Raises:
        SettingsError: A switch is neither on nor off.
    """
    storage: dict[str, str] = {}
    endpoint = next((environment[name] for name in ENDPOINTS if environment.get(name)), None)
    if endpoint is not None:
        storage["aws_endpoint"] = endpoint
    allow_http = _read_switch(environment, ALLOW_HTTP)
    if allow_http is not None:
        storage["allow_http"] = str(allow_http).lower()
    force_path_style = _read_switch(environment, FORCE_PATH_STYLE)
    if force_path_style is not None:
        storage["aws_virtual_hosted_style_request"] = str(not force_path_style).lower()
    return storage


def _read_choice(environment: Mapping[str, str], variable: str, default: Choice) -> Choice:
    """Return the choice that a variable names, or the default if it is not set."""
    value = environment.get(variable) or default.value
    choices = type(default)
    names = [choice.value for choice in choices]
    if value not in names:
        raise SettingsError.bad_variable(variable, value, f"write one of {', '.join(names)}")
    return choices(value)


def _read_switch(environment: Mapping[str, str], variable: str) -> bool | None:
    """Return whether a variable is switched on; None if it is not set."""
    value = environment.get(variable, "")
    if not value:
        return None
    if value.lower() not in _TRUE | _FALSE:
        raise SettingsError.bad_variable(variable, value)
    return value.lower() in _TRUE


def _read_bytes(environment: Mapping[str, str], variable: str) -> int | None:
    """Return a number of bytes, which may be 0; None if the variable is not set."""
    text = environment.get(variable, "")
    if text and not (text.isascii() and text.isdigit()):
        raise SettingsError.bad_variable(variable, text, "write a whole number of bytes")
    return int(text) if text else None


def _read_count(environment: Mapping[str, str], variable: str, default: int) -> int:
    """Return a whole number above 0, or the default if the variable is not set."""
    text = environment.get(variable, "")
    if text and not (text.isascii() and text.isdigit() and int(text)):
        raise SettingsError.bad_variable(variable, text, "write a whole number above 0")
    return int(text) if text else default


def _read_days(environment: Mapping[str, str], variable: str, default: float) -> float:
    """Return a number of days above 0; `none` is a century."""
    days = _read_limit(environment, variable, float, default)
    return MAX_DAYS if days is None else min(days, MAX_DAYS)


def _read_limit(
    environment: Mapping[str, str], variable: str, parse: Callable[[str], Number], default: Number | None
) -> Number | None:
    """Return a number above 0, None for the word `none`, and the default if the variable is not set."""
    text = environment.get(variable, "")
    if not text:
        return default
    if text == NO_LIMIT:
        return None
    try:
        number = parse(text)
    except ValueError:
        number = None
    if number is None or not 0 < number < math.inf:
        raise SettingsError.bad_variable(variable, text, f"write a number above 0, or `{NO_LIMIT}`")
    return number
