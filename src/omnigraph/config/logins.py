"""Keep the tokens of `omnigraph login`, each for one server, in a file that only its owner may read.

A settings file may name a server, but never where a token goes: to a server of a file, only the token is sent that the
user has stored for exactly that address.
"""

import json
import stat
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

from omnigraph.atomic_file import open_atomic_file
from omnigraph.config.settings_file import read_text
from omnigraph.errors import BadArgumentError, FileDeniedError, FileMissingError, SettingsError

LOGINS_FILE = "logins.json"
_PORTS = {"http": 80, "https": 443}
_OWNER_ONLY, _OTHERS = 0o600, 0o077


def normalize_server_url(url: str) -> str:
    """Return the address of a server in the one form by which logins are stored and compared.

    Raises:
        BadArgumentError: It is not the address of a server.
    """
    # Python's parser drops line breaks and tabs, and libraries do not agree on what else they pass over.
    if not url.isascii() or not url.isprintable() or set(url) & set(' \\"<>^`{|}'):
        raise BadArgumentError.bad_server_url(url, "it has characters that an address can't have")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise BadArgumentError.bad_server_url(url, str(error)) from error
    scheme = parts.scheme.lower()
    if scheme not in _PORTS or not parts.hostname or parts.query or parts.fragment:
        raise BadArgumentError.bad_server_url(url, "write http://host:port or https://host")
    if "@" in parts.netloc:
        # The message must not contain the password.
        raise BadArgumentError.bad_server_url(f"{scheme}://{parts.hostname}", "pass a token, not a password")
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    place = host if port is None or port == _PORTS[scheme] else f"{host}:{port}"
    return f"{scheme}://{place}{parts.path.rstrip('/')}"


class Logins:
    """The tokens that a user has stored, by the address of the server; None for a server that wants none."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def read(self) -> dict[str, str | None]:
        """Return all of them.

        Raises:
            SettingsError: The file is invalid, or others may read it.
            FileDeniedError, FileUnreadableError: It can't be read.
        """
        try:
            text = read_text(self.path)
        except FileMissingError:
            return {}
        if self.path.stat().st_mode & _OTHERS:
            raise SettingsError(str(self.path), "", "other users may read or write its tokens: run chmod 600")
        try:
            document = json.loads(text)
        except ValueError as error:
            raise SettingsError(str(self.path), "", f"it is not JSON: {error}") from error
        if not isinstance(document, dict) or not all(isinstance(token, str | None) for token in document.values()):
            raise SettingsError(str(self.path), "", "it is not a JSON object of tokens: remove it, and log in again")
        return document

    def store(self, url: str, token: str | None) -> None:
        """Store the token of a server."""
        self._write({**self.read(), normalize_server_url(url): token})

    def remove(self, url: str) -> bool:
        """Remove the token of a server, and return whether there was one."""
        logins = self.read()
        is_there = logins.pop(address := normalize_server_url(url), self) is not self
        if is_there:
            self._write({name: token for name, token in logins.items() if name != address})
        return is_there

    def _write(self, logins: dict[str, str | None]) -> None:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True, mode=stat.S_IRWXU)
            with open_atomic_file(self.path, mode=_OWNER_ONLY) as file:
                file.write(json.dumps(logins, indent=2).encode() + b"\n")
        except PermissionError as error:
            raise FileDeniedError(str(self.path), "write") from error


def find_logins(environment: Mapping[str, str]) -> Logins:
    """Return the logins of the user, whose file is where the XDG directories say."""
    config = environment.get("XDG_CONFIG_HOME") or Path(environment.get("HOME") or Path.home(), ".config")
    return Logins(Path(config, "omnigraph", LOGINS_FILE))
