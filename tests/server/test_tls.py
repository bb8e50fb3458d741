"""A server speaks TLS with its certificate, and with a renewed one without a restart."""

import json
import logging
import shutil
import socket
import ssl
import subprocess
import time
from http.client import HTTPSConnection
from pathlib import Path

import pytest

import omnigraph as og
from omnigraph.clock import SystemClock
from omnigraph.config.server import TlsFiles
from omnigraph.errors import SettingsError
from omnigraph.server.tls import TlsCertificate
from raised_codes import has_code
from server_process import SETTINGS, Process, laid_out, running
from serving import TOKENS

TLS_SETTINGS = SETTINGS.replace("[server]\n", "[server]\ncertificate = 'server.pem'\nprivate_key = 'server.key'\n")


def make_certificate(home: Path, name: str = "server", options: tuple[str, ...] = ("-nodes",)) -> TlsFiles:
    """Write a certificate for loopback that its own key signed."""
    files = TlsFiles(certificate=home / f"{name}.pem", private_key=home / f"{name}.key")
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", *options]
    command += ["-keyout", str(files.private_key), "-out", str(files.certificate), "-days", "2"]
    command += ["-subj", f"/CN={name}", "-addext", "subjectAltName=IP:127.0.0.1,DNS:localhost"]
    subprocess.run(command, check=True, capture_output=True)
    return files


def ask_name(process: Process, authority: Path) -> tuple[int, str]:
    """Ask for health, trusting this certificate only; return the status and the name in the server's certificate."""
    context = ssl.create_default_context(cafile=str(authority))
    connection = HTTPSConnection(process.host, process.port, timeout=30, context=context)
    try:
        connection.request("GET", "/healthz")
        assert isinstance(connection.sock, ssl.SSLSocket)
        subject = (connection.sock.getpeercert() or {})["subject"]
        return connection.getresponse().status, subject[0][0][1]
    finally:
        connection.close()


def test_a_server_speaks_tls_and_takes_a_renewed_certificate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = laid_out(tmp_path)
    first = make_certificate(tmp_path)
    (tmp_path / "omnigraph.toml").write_text(TLS_SETTINGS, encoding="utf-8")
    shutil.copy(first.certificate, tmp_path / "first.pem")
    with running(graph, tmp_path) as process:
        assert ask_name(process, tmp_path / "first.pem") == (200, "server")
        # Our own client, through the usual variable for authorities.
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "first.pem"))
        with og.connect(f"https://localhost:{process.port}", TOKENS["admin"]) as remote:
            assert [branch.name for branch in remote.branches.list()] == ["main"]
        # Plain HTTP gets nothing, and does not disturb the server.
        with socket.create_connection((process.host, process.port), timeout=30) as plain:
            plain.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert not plain.recv(100).startswith(b"HTTP")
        second = make_certificate(tmp_path, "renewed")
        shutil.copy(second.private_key, first.private_key)
        shutil.copy(second.certificate, first.certificate)
        end = time.monotonic() + 60
        while "the certificate was reloaded" not in (tmp_path / "server.log").read_text(encoding="utf-8"):
            assert time.monotonic() < end
            time.sleep(0.05)
        assert ask_name(process, second.certificate) == (200, "renewed")
        address = json.loads((tmp_path / "server.log").read_text(encoding="utf-8").splitlines()[0])["address"]
        assert address.startswith("https://")


def test_files_that_do_not_fit_together_leave_the_last_certificate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("omnigraph.server.tls._POLL_SECONDS", 0.0)
    files = make_certificate(tmp_path)
    other = make_certificate(tmp_path, "other")
    certificate = TlsCertificate(files, SystemClock())
    shutil.copy(other.certificate, files.certificate)
    with caplog.at_level(logging.INFO, "omnigraph"):
        certificate.reload_if_changed()
        certificate.reload_if_changed()
        assert [record.levelname for record in caplog.records] == ["ERROR"]  # once, not with every look
        files.private_key.unlink()
        certificate.reload_if_changed()
        assert [record.levelname for record in caplog.records] == ["ERROR"] * 2
        shutil.copy(other.private_key, files.private_key)
        certificate.reload_if_changed()
    assert caplog.records[-1].getMessage() == "the certificate was reloaded"
    assert shake_hands(certificate.context, other.certificate) == "other"


def test_a_failed_reload_does_not_break_new_connections(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("omnigraph.server.tls._POLL_SECONDS", 0.0)
    files = make_certificate(tmp_path)
    shutil.copy(files.certificate, tmp_path / "first.pem")
    certificate = TlsCertificate(files, SystemClock())
    shutil.copy(make_certificate(tmp_path, "other").certificate, files.certificate)
    certificate.reload_if_changed()
    assert shake_hands(certificate.context, tmp_path / "first.pem") == "server"


@pytest.mark.parametrize("broken", ["missing", "text", "foreign", "encrypted"])
def test_a_certificate_that_can_not_be_used_is_refused_at_the_start(broken: str, tmp_path: Path) -> None:
    files = make_certificate(tmp_path)
    if broken == "missing":
        files.private_key.unlink()
    elif broken == "text":
        files.certificate.write_text("no certificate", encoding="utf-8")
    elif broken == "foreign":
        shutil.copy(make_certificate(tmp_path, "other").private_key, files.private_key)
    else:
        files = make_certificate(tmp_path, "closed", ("-passout", "pass:secret"))
    with pytest.raises(SettingsError, check=has_code("bad_certificate")):
        TlsCertificate(files, SystemClock())


def shake_hands(server: ssl.SSLContext, authority: Path) -> str:
    """Return the name in the certificate that a context shows to a client that trusts one authority."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    asked = ssl.create_default_context(cafile=str(authority)).wrap_bio(
        to_client, to_server, server_hostname="localhost"
    )
    asks = server.wrap_bio(to_server, to_client, server_side=True)
    for _ in range(4):
        for side in (asked, asks):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
    name: str = (asked.getpeercert() or {})["subject"][0][0][1]
    return name
