"""Read and generate bearer tokens. A server stores only their SHA-256, never the tokens themselves."""

import hashlib
import os
import re
import stat
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from omnigraph.clock import format_instant
from omnigraph.config.settings_file import SettingsSection, read_settings
from omnigraph.errors import SettingsError
from omnigraph.ids import draw_text
from omnigraph.ops.commit_signature import ActorRefusedError, CommitTextTooLongError, check_actor
from omnigraph.policy import Actor, AttributeValue, parse_attribute

TOKEN_VARIABLE = "OMNIGRAPH_TOKEN"  # noqa: S105 - the name of a variable


def read_client_token() -> str | None:
    """Return the token of this process's environment, or None."""
    return os.environ.get(TOKEN_VARIABLE) or None


# Scanners for leaked secrets recognise tokens by this prefix.
TOKEN_PREFIX = "og_"  # noqa: S105 - a prefix of tokens, no token
# Shorter tokens could be guessed.
MIN_TOKEN_CHARACTERS = 32

_DIGEST = re.compile(r"[0-9a-f]{64}")
_RANDOM_BYTES = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenRecord:
    """A token: its actor, its SHA-256, and when it expires."""

    actor: Actor
    digest: bytes = field(repr=False)
    expires: datetime | None = None

    def is_valid_at(self, now: datetime) -> bool:
        """Return whether the token has not expired."""
        return self.expires is None or now < self.expires


def hash_token(token: str) -> bytes:
    """Return the SHA-256 of a token, the only form in which it is stored and compared."""
    return hashlib.sha256(token.encode()).digest()


def generate_token() -> str:
    """Generate a random token."""
    return TOKEN_PREFIX + draw_text(_RANDOM_BYTES)


def format_token_entry(token: str, actor: str, groups: tuple[str, ...] = (), expires: datetime | None = None) -> str:
    """Format the entry of a tokens file for a token, which contains only its hash.

    Raises:
        ActorRefusedError, CommitTextTooLongError: The actor or a group is not a valid name.
    """
    _check_names(actor, groups)
    lines = ["[[token]]", f'actor = "{actor}"', f'sha256 = "{hash_token(token).hex()}"']
    if groups:
        quoted = ", ".join(f'"{group}"' for group in groups)
        lines.append(f"groups = [{quoted}]")
    if expires is not None:
        lines.append(f"expires = {format_instant(expires)}")
    return "\n".join(lines) + "\n"


def read_tokens(path: Path) -> tuple[TokenRecord, ...]:
    """Read the tokens of a file. An actor may have several, so that one can be replaced without an interruption.

    Raises:
        SettingsError: The file is invalid, or users other than its owner may write it.
        FileMissingError, BadFileError, FileDeniedError, FileUnreadableError: It can't be read.
    """
    root = read_settings(path)
    if path.stat().st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise SettingsError(str(path), "", "users other than its owner may write it and add tokens: run chmod go-w")
    tokens = tuple(_read_record(section) for section in root.list_sections("token"))
    root.finish()
    digests = [token.digest for token in tokens]
    if len(set(digests)) < len(digests):
        raise SettingsError(str(path), "token", "the same token is listed twice, so its actor is ambiguous")
    return tokens


def _read_record(section: SettingsSection) -> TokenRecord:
    actor = section.get_text("actor")
    digest = section.get_text("sha256")
    groups = section.get_texts("groups")
    expires = section.get_instant("expires")
    attributes = _read_attributes(section)
    section.finish()
    if actor is None or digest is None:
        raise section.build_error("actor" if actor is None else "sha256", "every token needs both `actor` and `sha256`")
    if not _DIGEST.fullmatch(digest):
        raise section.build_error(
            "sha256", "write the SHA-256 of the token as 64 hexadecimal digits, never the token itself"
        )
    try:
        _check_names(actor, groups)
    except (ActorRefusedError, CommitTextTooLongError) as error:
        raise section.build_error("actor", str(error)) from error
    return TokenRecord(
        actor=Actor(name=actor, groups=frozenset(groups), attributes=attributes),
        digest=bytes.fromhex(digest),
        expires=None if expires is None else expires.astimezone(UTC),
    )


def _read_attributes(section: SettingsSection) -> tuple[tuple[str, AttributeValue], ...]:
    attributes: list[tuple[str, AttributeValue]] = []
    for name, value in section.list_values("attributes"):
        attribute = parse_attribute(value)
        if attribute is None or name == "name":
            reason = "write a text, an integer, a truth value or a list of these; `name` is the actor's own name"
            raise section.build_error(f"attributes.{name}", reason)
        attributes.append((name, attribute))
    return tuple(attributes)


def _check_names(actor: str, groups: tuple[str, ...]) -> None:
    for name in (actor, *groups):
        check_actor(name)
        # `format_token_entry` writes names into TOML without escapes.
        if '"' in name or "\\" in name:
            raise ActorRefusedError(name)
