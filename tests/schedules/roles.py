"""Names for what a step is about, the same in every run: Lance's file names are random, and so are ids."""

import re

_VERSION = re.compile(r"_versions/(d?)(\d+)\.manifest")
_ROLES = (
    (re.compile(r"__recovery/clock$"), "the clock of the store"),
    (re.compile(r"__recovery/[^/]+\.json$"), "a sidecar"),
    (re.compile(r"__recovery/.+\.note$"), "a note of a task"),
    (re.compile(r"__recovery/?$"), "the sidecars"),
    (re.compile(r"^__manifest"), "main"),
    (re.compile(r"^__branches/[^/]+"), "a branch"),
    (re.compile(r"^_graph_commit_recoveries"), "the audit"),
    (re.compile(r"^_schema\.pg"), "the copy of the schema"),
    (re.compile(r"^(nodes|edges)/[^/]+"), "a table"),
)


def describe(key: str) -> str:
    """Return what a key is, without ids."""
    owner = next((role for pattern, role in _ROLES if pattern.search(key)), key)
    version = _VERSION.search(key)
    if version is not None:
        number = 2**64 - 1 - int(version[2])
        return f"a version of {owner}" if version[1] else f"version {number} of {owner}"
    if "/data/" in key:
        return f"a file of {owner}"
    if key.endswith("/"):
        return f"the files of {owner}" if "sidecars" not in owner else owner
    return owner
