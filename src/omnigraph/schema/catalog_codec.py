"""The stored form of a catalog: canonical JSON bytes with a format tag, decoded strictly."""

import hashlib
import json
from typing import NoReturn

from omnigraph.errors import Kind, OmnigraphError
from omnigraph.schema.canonical import catalog_to_json, normalize_catalog
from omnigraph.schema.catalog import Catalog
from omnigraph.schema.decode import decode_document
from omnigraph.schema.document import JsonNode

CATALOG_FORMAT = "omnigraph-catalog/1"


class CatalogFormatError(OmnigraphError):
    """The stored catalog has a format that this version does not read."""

    kind = Kind.CORRUPT
    code = "catalog_format"

    def __init__(self, found: str) -> None:
        super().__init__(found)
        self.found = found

    def __str__(self) -> str:
        return (
            f"the stored schema has the format {self.found}, but this omnigraph reads {CATALOG_FORMAT}: use a newer one"
        )


def encode_catalog(catalog: Catalog) -> bytes:
    """The canonical bytes: equal catalogs give equal bytes."""
    return _encode_canonical({"format": CATALOG_FORMAT, **catalog_to_json(catalog)})


def decode_catalog(data: bytes) -> Catalog:
    """The catalog of canonical bytes.

    Raises:
        CatalogFormatError: the bytes name another format.
        CatalogCorruptError: anything else that `encode_catalog` would not have written, with the place and the reason.
    """
    fields = _parse_json(data)
    document = JsonNode("", fields)
    if not isinstance(fields, dict) or not isinstance(fields.get("format"), str):
        document.fail("it has no format tag")
    if fields["format"] != CATALOG_FORMAT:
        raise CatalogFormatError(fields["format"][:80])
    catalog = decode_document(JsonNode("", {name: value for name, value in fields.items() if name != "format"}))
    if encode_catalog(catalog) != data:
        document.fail("it is not in canonical form, so something else wrote it")
    return catalog


def compute_fingerprint(catalog: Catalog) -> str:
    """The SHA-256 of what the schema says, in hex.

    Comments, layout and the order of types and constraints don't count, nor do identities: the text alone decides, so
    the same schema has the same fingerprint in every graph. The order of properties counts, and `@rename_from` too,
    because with it the same types can mean another migration.
    """
    return hashlib.sha256(_encode_canonical(normalize_catalog(catalog))).hexdigest()


def _encode_canonical(fields: object) -> bytes:
    text = json.dumps(fields, ensure_ascii=False, allow_nan=False, sort_keys=True, separators=(",", ":"))
    return text.encode()


def _parse_json(data: bytes) -> object:
    try:
        return json.loads(data.decode(), parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        JsonNode("", None).fail(f"it is not JSON ({type(error).__name__})")


def _refuse_constant(constant: str) -> NoReturn:
    raise ValueError(constant)
