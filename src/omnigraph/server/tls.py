"""TLS of a server: the certificate of its settings, loaded again when its files change."""

import ssl
from pathlib import Path

from omnigraph.clock import Clock
from omnigraph.config.server import TlsFiles
from omnigraph.errors import SettingsError
from omnigraph.telemetry import log

# The minimum time between two looks at the files.
_POLL_SECONDS = 2.0

_Signature = tuple[tuple[int, int, int], ...]


class TlsCertificate:
    """The context of a server's connections. Used by one event loop.

    A renewed certificate takes effect for new connections within seconds. While the files don't fit together, as after
    one of them was written, or can't be read, the last valid certificate stays in use and the log reports it.
    """

    def __init__(self, files: TlsFiles, clock: Clock) -> None:
        """Load the certificate.

        Raises:
            SettingsError: It can't be used.
        """
        self._files, self._clock = files, clock
        self._checked_at = clock.monotonic()
        self._last_signature = _read_signature(files)
        try:
            self.context = _build_context(files)
        except (OSError, ValueError) as error:  # an `SSLError` is an OSError
            raise SettingsError.bad_certificate(str(files.certificate), _explain(error)) from error

    def reload_if_changed(self, *, is_due: bool = False) -> None:
        """Load the certificate again if its files changed since the last look some seconds ago, or since any."""
        now = self._clock.monotonic()
        if now - self._checked_at < _POLL_SECONDS and not is_due:
            return
        self._checked_at = now
        signature = _read_signature(self._files)
        if signature == self._last_signature:
            return
        self._last_signature = signature
        try:
            # First elsewhere: a context that fails to load a key has lost its old one.
            _build_context(self._files)
            _load_certificate(self.context, self._files)
        except (OSError, ValueError) as error:
            log.error("the changed certificate can't be used; the previous one stays in use: %s", _explain(error))
            return
        log.info("the certificate was reloaded")


def _build_context(files: TlsFiles) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    _load_certificate(context, files)
    return context


def _load_certificate(context: ssl.SSLContext, files: TlsFiles) -> None:
    # Without a password OpenSSL would ask for that of an encrypted key on the terminal.
    context.load_cert_chain(files.certificate, files.private_key, password="")


def _explain(error: OSError | ValueError) -> str:
    """Return what is wrong with the files, without a position in OpenSSL's source."""
    if isinstance(error, ssl.SSLError):
        return (error.reason or "the files are no certificate and key").lower().replace("_", " ")
    return error.strerror or str(error) if isinstance(error, OSError) else str(error)


def _read_signature(files: TlsFiles) -> _Signature:
    return tuple(_read_file_signature(path) for path in (files.certificate, files.private_key))


def _read_file_signature(path: Path) -> tuple[int, int, int]:
    try:
        stat = path.stat()
    except OSError:  # it counts as changed as soon as it is back
        return 0, 0, 0
    return stat.st_mtime_ns, stat.st_size, stat.st_ino
