"""Bundle what a graph handle gets from outside: clock, ids, faults, settings, telemetry and policy."""

from dataclasses import dataclass, field

from omnigraph.clock import Clock, SystemClock
from omnigraph.faults import Faults, NoFaults
from omnigraph.ids import Ids, SystemIds
from omnigraph.options import Options
from omnigraph.policy import Policy
from omnigraph.telemetry import Telemetry


@dataclass(frozen=True, slots=True, kw_only=True)
class Runtime:
    """The dependencies of the whole engine in one bundle, so that a test can replace any of them."""

    clock: Clock = field(default_factory=SystemClock)
    ids: Ids = field(default_factory=lambda: SystemIds(SystemClock()))
    faults: Faults = field(default_factory=NoFaults)
    options: Options = field(default_factory=Options)
    telemetry: Telemetry = field(default_factory=Telemetry)
    policy: Policy | None = None
    """Who may do what; None: all actors may do everything."""
