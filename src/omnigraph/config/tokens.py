"""Bearer tokens as a server keeps them: whose they are, and their SHA-256. The tokens themselves are kept nowhere."""

import hashlib
import os
import re
import secrets
import stat
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from omnigraph.clock import format_instant
from omnigraph.config.settings_file import SettingsError, SettingsSection, read_settings
from omnigraph.ops.commit_signature import ActorRefusedError, CommitTextTooLongError, check_actor
from omnigraph.policy import Actor

TOKEN_VARIABLE = "OMNIGRAPH_TOKEN"  # noqa: S105 - the name of a variable


def read_client_token() -> str | None:
    """The token of the environment."""
    return os.environ.get(TOKEN_VARIABLE) or None


TOKEN_PREFIX = "og_"  # noqa: S105 - what tokens begin with, not one of them
"""What tokens start with, so that scanners find those that were published by mistake."""
MIN_TOKEN_CHARACTERS = 32
"""The fewest characters of a token: what is shorter may be guessed."""

_DIGEST = re.compile(r"[0-9a-f]{64}")
_RANDOM_BYTES = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenRecord:
    """One token: whose it is, its SHA-256, and when it ends."""

    actor: Actor
    digest: bytes = field(repr=False)
    expires: datetime | None = None

    def is_valid_at(self, now: datetime) -> bool:
        """Whether it has not ended."""
        return self.expires is None or now < self.expires


def hash_token(token: str) -> bytes:
    """The SHA-256 of a token, the only form in which it is kept and compared."""
    return hashlib.sha256(token.encode()).digest()


def generate_token() -> str:
    """A token that nobody can guess."""
    return TOKEN_PREFIX + secrets.token_urlsafe(_RANDOM_BYTES)


def format_token_entry(token: str, actor: str, groups: tuple[str, ...] = (), expires: datetime | None = None) -> str:
    """What a tokens file says of a token: its hash, never itself. The actor and the groups have to be names."""
    _check_names(actor, groups)
    lines = ["[[token]]", f'actor = "{actor}"', f'sha256 = "{hash_token(token).hex()}"']
    if groups:
        quoted = ", ".join(f'"{group}"' for group in groups)
        lines.append(f"groups = [{quoted}]")
    if expires is not None:
        lines.append(f"expires = {format_instant(expires)}")
    return "\n".join(lines) + "\n"


def read_tokens(path: Path) -> tuple[TokenRecord, ...]:
    """The tokens of a file; several may be of one actor, so that one can be replaced without a pause.

    Raises:
        SettingsError: It can't be understood, or others than its owner may write it.
        What `read_settings` raises.
    """
    root = read_settings(path)
    if path.stat().st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise SettingsError(str(path), "", "others than its owner may write it, and let themselves in: chmod go-w")
    found = tuple(_read_record(one) for one in root.list_sections("token"))
    root.finish()
    digests = [one.digest for one in found]
    if len(set(digests)) < len(digests):
        raise SettingsError(str(path), "token", "one token is there twice: whose it is would not be clear")
    return found


def _read_record(section: SettingsSection) -> TokenRecord:
    actor, digest = section.get_text("actor"), section.get_text("sha256")
    groups, expires = section.get_texts("groups"), section.get_instant("expires")
    section.finish()
    if actor is None or digest is None:
        raise section.build_error("actor" if actor is None else "sha256", "every token has both `actor` and `sha256`")
    if not _DIGEST.fullmatch(digest):
        raise section.build_error(
            "sha256", "write the SHA-256 of the token as 64 hexadecimal digits, never the token itself"
        )
    try:
        _check_names(actor, groups)
    except (ActorRefusedError, CommitTextTooLongError) as error:
        raise section.build_error("actor", str(error)) from error
    named = Actor(name=actor, groups=frozenset(groups))
    return TokenRecord(
        actor=named, digest=bytes.fromhex(digest), expires=None if expires is None else _convert_to_utc(expires)
    )


def _check_names(actor: str, groups: tuple[str, ...]) -> None:
    for name in (actor, *groups):
        check_actor(name)
        if '"' in name or "\\" in name:
            raise ActorRefusedError(name)


def _convert_to_utc(instant: datetime) -> datetime:
    return instant.astimezone(UTC)
