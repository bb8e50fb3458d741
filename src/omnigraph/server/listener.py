"""The socket on which a server listens, alone or together with other workers of the same server."""

import socket

from omnigraph.config.server import ServerConfig
from omnigraph.server.http_errors import ServerUnavailableError


def open_listener(config: ServerConfig) -> socket.socket:
    """Return a socket that listens on the server's address; connections queue until they are accepted.

    Raises:
        ServerUnavailableError: The address is in use, or the process may not listen there.
    """
    return _bind(config, config.port, is_shared=False)


def reserve_address(config: ServerConfig) -> socket.socket:
    """Return a socket that holds the server's address for its workers, and does not listen itself.

    Raises:
        ServerUnavailableError: The address is in use, or the process may not listen there.
    """
    # An address that may be shared could be that of another server of the same user: first try it alone.
    with _bind(config, config.port, is_shared=False) as alone:
        port = alone.getsockname()[1]
    return _bind(config, port, is_shared=True)


def join_address(config: ServerConfig, port: int) -> socket.socket:
    """Return a worker's own socket that listens on a reserved address; the system spreads connections over all."""
    listener = _bind(config, port, is_shared=True)
    listener.listen()
    return listener


def format_address(config: ServerConfig, port: int) -> str:
    """Return the address as clients name it."""
    scheme = "http" if config.tls is None else "https"
    host = f"[{config.host}]" if ":" in config.host else config.host
    return f"{scheme}://{host}:{port}"


def _bind(config: ServerConfig, port: int, *, is_shared: bool) -> socket.socket:
    family = socket.AF_INET6 if ":" in config.host else socket.AF_INET
    # With the protocol named, asyncio sets TCP_NODELAY on accepted connections. Without it, each answer waited for the
    # client's delayed acknowledgement: 48 ms instead of 2.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    # A server that restarts can listen again while connections of the old one are still closing.
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if is_shared:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    try:
        listener.bind((config.host, port))
        if not is_shared:
            listener.listen()
    except OSError as error:
        listener.close()
        raise ServerUnavailableError.address_unavailable(
            format_address(config, port), error.strerror or str(error)
        ) from error
    return listener
