"""What ends a simulation on its own account: a step that cannot come, too many steps, or a call of a
loop that the simulator has no model of.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn

from kmirror.common.errors import KmirrorError


class NotModelledError(KmirrorError):
    """Code under simulation asked for something that the simulator does not have."""


class SimulationStuckError(KmirrorError):
    """Nothing is ready, no timer is set, and what was waited for has not happened."""


class SimulationBudgetError(KmirrorError):
    """More steps or more virtual time than allowed."""


def not_modelled(name: str) -> Callable[..., NoReturn]:
    """Returns a method of a loop that raises NotModelledError."""

    def refuse(*_args: object, **_named: object) -> NoReturn:
        raise NotModelledError(f"the simulator does not model loop.{name}")

    return refuse
