"""What a fault is (`Fault`), what it may touch (`FaultScene`), and how it heals (`Mending`).

The faults themselves are in `sim.fault_kinds`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from kmirror.common.ports import Random
from kmirror.runtime.system_ports import SeededRandom
from kmirror.sim.events import History, Told
from kmirror.sim.runtime import SimWorld
from kmirror.sim.server import SimServer


@dataclass(frozen=True, slots=True)
class Mending:
    """After `delay_ms` of virtual time `act` mends what is broken; `what` names the task.

    If `watched` is given, the operator looks after that server's disks for the rest of the story.
    """

    what: str
    delay_ms: int
    act: Callable[[], object]
    watched: SimServer | None = None


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault as it is declared.

    `weight` says how often a storm draws it, relative to the others. Faults `of_disks` are drawn
    only where disks break. `happen` makes it happen now and tells the story; it returns the
    `Mending`, or None if nothing needs mending.
    """

    name: str
    about: str
    weight: int
    of_disks: bool
    happen: Callable[[FaultScene], Mending | None]


def fault(*, weight: int, of_disks: bool = False) -> Callable[[Callable[[FaultScene], Mending | None]], Fault]:
    """Declares the function as a fault of the same name; `kmirror sim --list` shows its docstring."""
    return lambda happen: Fault(happen.__name__, " ".join((happen.__doc__ or "").split()), weight, of_disks, happen)


class FaultScene:
    """What faults may hit, and the random draws that they share.

    `hosts` are all that talk to each other, `servers` those that can die, `with_disks` those whose
    disks can break. `way_to_die(server, power_loss)` says how the drawn server dies now: True for a
    loss of power, False for a crash, None for not at all. A held server does not die, since the
    story owns its life.
    """

    def __init__(
        self,
        world: SimWorld,
        servers: Sequence[SimServer],
        hosts: Sequence[str],
        history: History,
        *,
        way_to_die: Callable[[SimServer, bool], bool | None],
        with_disks: Sequence[SimServer],
    ) -> None:
        self.world = world
        self.servers = list(servers)
        self.with_disks = list(with_disks)
        self.random: Random = SeededRandom(f"{world.loop.seed}/faults")
        self.way_to_die = way_to_die
        self._hosts = list(hosts)
        self._history = history
        self._held: dict[str, None] = {}

    def hold(self, server: SimServer) -> None:
        self._held[server.name] = None

    def release(self, server: SimServer) -> None:
        self._held.pop(server.name, None)

    def is_held(self, server: SimServer) -> bool:
        return server.name in self._held

    def between(self, low: int, high: int) -> int:
        """Draws a number from `low` to `high`, both included."""
        return low + self.random.randrange(high - low + 1)

    def coin(self) -> bool:
        return self.random.randrange(2) == 0

    def any_server(self) -> SimServer:
        return self.servers[self.random.randrange(len(self.servers))]

    def one_that_may_die(self, servers: Sequence[SimServer]) -> SimServer | None:
        """Draws one of those that serve and are not held; None if there is none."""
        candidates = [server for server in servers if server.is_serving and server.alive and not self.is_held(server)]
        return candidates[self.random.randrange(len(candidates))] if candidates else None

    def two_hosts(self) -> tuple[str, str]:
        first = self.random.randrange(len(self._hosts))
        second = (first + 1 + self.random.randrange(len(self._hosts) - 1)) % len(self._hosts)
        return self._hosts[first], self._hosts[second]

    def start_again(self, server: SimServer) -> None:
        """Starts the server, unless it runs or is held."""
        if not server.alive and not self.is_held(server):
            server.start()

    def heal_network(self) -> None:
        """Lets every host reach every other, at normal speed."""
        network = self.world.network
        network.heal()
        for first in self._hosts:
            for second in self._hosts:
                if first != second:
                    network.links.set(first, second, network.links.default)

    def tell(self, what: str) -> None:
        self._history.add(Told(self.world.loop.now_us, "faults", what))
