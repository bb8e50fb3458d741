"""The server of a worker: it obeys the parent, answers the other workers, and publishes how it is."""

import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from omnigraph.engine.tables.graph_cache import detect_memory_limit
from omnigraph.runtime import Runtime
from omnigraph.server.draining_server import DrainingServer
from omnigraph.server.fleet import Fleet
from omnigraph.server.http.relay_server import RelayServer
from omnigraph.server.listener import join_address
from omnigraph.server.logs import start_logging
from omnigraph.server.service import Service, summarize_damage
from omnigraph.server.shared_state import ServerStage, SharedState, WorkerState
from omnigraph.server.tls import TlsCertificate
from omnigraph.server.workers.worker_settings import WorkerSettings

# The damage that scrubs found is published with every tenth turn of the main loop, once a second.
_DAMAGE_TICKS = 10
_CACHE_DIVISOR = 4


class WorkerServer(DrainingServer):
    """A server that is one of several workers."""

    def __init__(self, service: Service, fleet: Fleet, certificate: TlsCertificate | None) -> None:
        super().__init__(service, certificate)
        self._fleet = fleet
        self._stage = ServerStage.SERVE
        self._reloads = fleet.shared.reloads
        self._relay_server = RelayServer(self.app, fleet.find_socket(fleet.slot))

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals to the parent."""
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to accept connections of clients and of other workers."""
        await self._relay_server.start()
        await super().startup(sockets)
        self._publish(0)
        self._fleet.slot.state = WorkerState.READY

    async def on_tick(self, counter: int) -> bool:
        """Follow the parent's orders, and publish how this worker is; return whether it should end."""
        shared = self._fleet.shared
        if shared.stage > self._stage:
            if self._stage is ServerStage.SERVE:
                self.drain()
            self._stage = shared.stage
            if self._stage is ServerStage.STOP:
                self.stop()
        if shared.reloads > self._reloads:
            self._reloads = shared.reloads
            self.reload()
        self._publish(counter)
        return await super().on_tick(counter)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Close all connections."""
        await self._relay_server.close()
        await super().shutdown(sockets)
        # From here on, nothing is abandoned with the process.
        self._fleet.slot.state = WorkerState.ENDED

    def _publish(self, counter: int) -> None:
        slot = self._fleet.slot
        slot.beat = time.monotonic_ns()
        slot.is_saturated = self._service.admission.is_saturated
        if self._fleet.is_home and counter % _DAMAGE_TICKS == 0:
            slot.is_verified, slot.damaged_graphs, slot.damaged_files = summarize_damage(self._service)


def build_worker(settings: WorkerSettings, runtime: Runtime) -> tuple[WorkerServer, list[socket.socket]]:
    """Open the graphs of a worker, and return its server with the socket that it listens on, if it has clients.

    Raises:
        OmnigraphError: Something can't be served.
    """
    config = settings.build_config()
    start_logging(runtime.clock, worker=settings.index)
    shared = SharedState(settings.shared_fd)
    fleet = Fleet(shared, shared.slots[settings.index], settings.home, settings.serving)
    certificate = None if config.tls is None else TlsCertificate(config.tls, runtime.clock)
    service = Service.start(
        config, _divide_memory(runtime, settings.workers), is_open_to_all=settings.is_open_to_all, fleet=fleet
    )
    listeners = [] if settings.is_long else [join_address(config, settings.port)]
    return WorkerServer(service, fleet, certificate), listeners


def _divide_memory(runtime: Runtime, workers: int) -> Runtime:
    """Return the runtime with this worker's part of the caches of reads, indexes and files, which are the server's."""
    options = runtime.options
    whole = detect_memory_limit() // _CACHE_DIVISOR if options.cache_bytes is None else options.cache_bytes
    return replace(runtime, options=replace(options, cache_bytes=whole // workers, cache_shares=workers))
