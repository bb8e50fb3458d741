"""The words that both parsers know: reserved ones, and the ones that people bring along from other languages."""

RESERVED_WORDS = frozenset(
    [
        "and",
        "or",
        "not",
        "in",
        "is",
        "null",
        "true",
        "false",
        "match",
        "return",
        "distinct",
        "order",
        "limit",
        "offset",
        "asc",
        "desc",
        "as",
        "insert",
        "update",
        "delete",
        "set",
        "where",
        "contains",
        "starts_with",
    ]
)
"""The reserved words of the query language, as the languages' reference lists them."""

DECLARATION_KEYWORDS = ("node", "edge", "interface")

TYPE_SYNONYMS = {
    "int": "I64",
    "integer": "I64",
    "int64": "I64",
    "long": "I64",
    "bigint": "I64",
    "int32": "I32",
    "uint": "U64",
    "uint64": "U64",
    "uint32": "U32",
    "float": "F64",
    "float64": "F64",
    "double": "F64",
    "number": "F64",
    "float32": "F32",
    "real": "F32",
    "str": "String",
    "text": "String",
    "varchar": "String",
    "char": "String",
    "uuid": "String",
    "json": "String",
    "boolean": "Bool",
    "bytes": "Blob",
    "binary": "Blob",
    "timestamp": "DateTime",
    "timestamptz": "DateTime",
    "instant": "DateTime",
    "time": "DateTime",
}
"""What other languages call a base type, in small letters."""

DECLARATION_SYNONYMS = {
    "type": "node",
    "class": "node",
    "table": "node",
    "vertex": "node",
    "entity": "node",
    "struct": "node",
    "relation": "edge",
    "relationship": "edge",
    "rel": "edge",
    "link": "edge",
    "trait": "interface",
    "abstract": "interface",
}

OPERATOR_SYNONYMS = {
    "like": "contains",
    "ilike": "contains",
    "includes": "contains",
    "has": "contains",
    "startswith": "starts_with",
    "begins_with": "starts_with",
    "eq": "=",
    "equals": "=",
    "ne": "!=",
    "neq": "!=",
    "lt": "<",
    "le": "<=",
    "lte": "<=",
    "gt": ">",
    "ge": ">=",
    "gte": ">=",
}

CLAUSE_SYNONYMS = {"sort": "order", "orderby": "order", "order_by": "order", "skip": "offset", "top": "limit"}
"""What other languages call the clauses behind `return`."""

LITERAL_SYNONYMS = {"none": "null", "nil": "null", "undefined": "null", "yes": "true", "no": "false"}
