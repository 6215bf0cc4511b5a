"""`kmirror.recreated.topic.policy`: where copying continues in a topic that was created again at the
source, for MirrorMaker 2 (`source_guard`) and for the legacy tool. Apache's programs do not have it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from kmirror.common.errors import ConfigError

RECREATED_POLICY_CONFIG: Final = "kmirror.recreated.topic.policy"
OFFSET, BEGINNING, STOP = RECREATED_POLICIES = ("offset", "beginning", "stop")


def recreated_policy(properties: Mapping[str, str], policies: Sequence[str] = RECREATED_POLICIES) -> str:
    """Returns one of `policies`; ConfigError for any other."""
    given = properties.get(RECREATED_POLICY_CONFIG, OFFSET).strip().lower()
    if given not in policies:
        raise ConfigError(
            f"Invalid value {given} for configuration {RECREATED_POLICY_CONFIG}: String must be one of: {', '.join(policies)}"
        )
    return given
