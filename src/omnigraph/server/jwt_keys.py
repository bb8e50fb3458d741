"""The public keys of an issuer of JWTs: read from a file or fetched, and kept up to date."""

import json
import ssl
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from omnigraph.clock import Clock
from omnigraph.config.jwt_issuers import JwtIssuer
from omnigraph.config.settings_file import read_text
from omnigraph.errors import OmnigraphError, SettingsError
from omnigraph.telemetry import log

if TYPE_CHECKING:
    from jwt import PyJWK

# Keys are looked at again after this time: a file costs nothing, a server is asked rarely.
_FILE_SECONDS, _FETCH_SECONDS = 2.0, 600.0
# A token that names an unknown key may make us fetch them earlier, but no client may make us fetch all the time.
_MIN_FETCH_SECONDS = 30.0
_CONNECT_SECONDS, _FETCH_LIMIT_SECONDS = 10.0, 30.0
_MAX_SET_BYTES = 256 * 1024
_MAX_KEYS = 100
_CHUNK_BYTES = 64 * 1024
_MIN_RSA_BITS = 2048
# The family of keys that verifies signatures of an algorithm.
_KEY_TYPES = {"RS": "RSA", "PS": "RSA", "ES": "EC", "Ed": "OKP"}


@dataclass(frozen=True, slots=True)
class KeySet:
    """The keys of an issuer at one time: JSON Web Keys, with what each is for."""

    keys: tuple[Mapping[str, object], ...] = ()

    def find(self, key_id: str | None, algorithm: str) -> "PyJWK | None":
        """Return the key that signed a token; without an id of the key there must be no choice."""
        fitting = [
            key
            for key in self.keys
            if key.get("kty") == _KEY_TYPES[algorithm[:2]]
            and key.get("alg", algorithm) == algorithm
            and (key_id is None or key.get("kid") == key_id)
        ]
        return _build_key(json.dumps(fitting[0]), algorithm) if len(fitting) == 1 else None


class IssuerKeys:
    """The newest keys of an issuer. Thread-safe.

    A changed file takes effect within seconds. Keys of a URL are fetched by a thread, every ten minutes, and earlier if
    a token names an unknown one. While they can't be read, the last ones stay in use and the log reports it.
    """

    def __init__(self, issuer: JwtIssuer, clock: Clock) -> None:
        self._issuer, self._clock = issuer, clock
        self._known = KeySet()
        self._content: str | None = None
        self._looked_at = clock.monotonic()
        self._has_failed = False
        self._lock = threading.Lock()
        self._is_wanted = threading.Event()
        self._is_stopped = threading.Event()

    def load(self) -> None:
        """Read or fetch the keys now.

        Raises:
            SettingsError: They can't be used.
            FileMissingError, BadFileError, FileDeniedError, FileUnreadableError: The file can't be read.
        """
        source = self._issuer.keys
        content = fetch_text(source, self._clock) if self._issuer.has_url else read_text(Path(source))
        if content != self._content:
            self._known = parse_keys(source, content)
            self._content = content

    def start(self) -> None:
        """Load the keys. A file that can't be used is an error, a server that can't be reached now is only logged.

        Raises:
            OmnigraphError: The errors of `load` for a file.
        """
        if not self._issuer.has_url:
            self.load()
            return
        self._reload()
        threading.Thread(target=self._refresh, name="jwt keys", daemon=True).start()

    def stop(self) -> None:
        """End the thread that fetches, without waiting for its request in progress."""
        self._is_stopped.set()
        self._is_wanted.set()

    def get_current(self) -> KeySet:
        """Return the keys; a caller never waits for a server."""
        if not self._issuer.has_url and self._clock.monotonic() - self._looked_at >= _FILE_SECONDS:
            with self._lock:
                self._reload()
        return self._known

    def request_refresh(self) -> None:
        """Have the keys fetched soon: a token named one that is not known."""
        self._is_wanted.set()

    def _refresh(self) -> None:
        # The first wait bounds how often strangers can make the server fetch.
        while not self._is_stopped.wait(_MIN_FETCH_SECONDS):
            self._is_wanted.wait(_FETCH_SECONDS)
            self._is_wanted.clear()
            if not self._is_stopped.is_set():
                self._reload()

    def _reload(self) -> None:
        self._looked_at = self._clock.monotonic()
        try:
            self.load()
        except OmnigraphError as error:
            # Logged once, not with every attempt.
            if not self._has_failed:
                log.error("the keys of a JWT issuer can't be read; the last valid ones stay in use: %s", error)
            self._has_failed = True
            self._is_wanted.set()  # the next attempt comes soon
        else:
            if self._has_failed:
                log.info("the keys of the JWT issuer %s can be read again", self._issuer.issuer)
            self._has_failed = False


def parse_keys(source: str, content: str) -> KeySet:
    """Parse a JSON Web Key Set; keys that verify no signature of ours, such as those for encryption, are left out.

    Raises:
        SettingsError: It is no key set, contains a secret, or no key of it can be used.
    """
    try:
        keys = json.loads(content)["keys"]
        signing = [key for key in keys if key["kty"] in _KEY_TYPES.values() and key.get("use", "sig") == "sig"]
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        raise SettingsError(source, "", 'it is not a JSON Web Key Set, {"keys": [{"kty": …}, …]}') from None
    # Whoever can read a server's settings could sign with these.
    if any(key["kty"] == "oct" or "d" in key for key in keys):
        raise SettingsError(source, "", "it contains a secret key: name the public keys only")
    if len(keys) > _MAX_KEYS:
        raise SettingsError(source, "", f"it has more than {_MAX_KEYS} keys")
    usable = tuple(filter(_is_usable, signing))
    if not usable:
        raise SettingsError(
            source, "", f"no key of it can verify signatures: RSA of {_MIN_RSA_BITS} bits or more, EC, or Ed25519"
        )
    return KeySet(usable)


def fetch_text(url: str, clock: Clock) -> str:
    """Fetch a small text, without following redirects, within bounds of time and size.

    Raises:
        SettingsError: The server does not respond with it.
    """
    from http.client import HTTPConnection, HTTPException, HTTPSConnection  # noqa: PLC0415 - few servers fetch keys

    parts = urlsplit(url)
    host, deadline = parts.hostname or "", clock.monotonic() + _FETCH_LIMIT_SECONDS
    if parts.scheme == "https":
        connection: HTTPConnection = HTTPSConnection(
            host, parts.port, timeout=_CONNECT_SECONDS, context=ssl.create_default_context()
        )
    else:
        connection = HTTPConnection(host, parts.port, timeout=_CONNECT_SECONDS)
    try:
        path = f"{parts.path or '/'}?{parts.query}" if parts.query else parts.path or "/"
        connection.request("GET", path, headers={"Accept": "application/json"})
        with connection.getresponse() as response:
            content = bytearray()
            # The timeout of a socket is one of silence; a server that trickles would outlast it.
            while len(content) <= _MAX_SET_BYTES and clock.monotonic() < deadline:
                chunk = response.read1(_CHUNK_BYTES)
                if not chunk:
                    break
                content += chunk
            else:
                raise SettingsError(url, "", "its response is too large or too slow")
            if response.status != 200:
                raise SettingsError(url, "", f"its server responds with HTTP {response.status}")
            return content.decode()
    except (OSError, HTTPException, UnicodeDecodeError) as error:
        raise SettingsError(url, "", f"no answer that can be read ({type(error).__name__})") from error
    finally:
        connection.close()


def _is_usable(key: Mapping[str, object]) -> bool:
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey  # noqa: PLC0415 - few servers have JWTs
    from jwt import PyJWK  # noqa: PLC0415 - as above
    from jwt.exceptions import PyJWTError  # noqa: PLC0415 - as above

    try:
        built = PyJWK(dict(key)).key
    except (PyJWTError, ValueError, TypeError, LookupError):
        return False
    return not isinstance(built, RSAPublicKey) or built.key_size >= _MIN_RSA_BITS


@lru_cache(maxsize=4 * _MAX_KEYS)
def _build_key(key: str, algorithm: str) -> "PyJWK":
    from jwt import PyJWK  # noqa: PLC0415 - as above

    return PyJWK(json.loads(key), algorithm)
