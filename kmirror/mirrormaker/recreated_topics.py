"""`kmirror.recreated.topic.policy`: where copying goes on in a topic that was made anew at the source,
for MirrorMaker 2 (`source_guard`) and for the legacy tool. Neither of Apache's has it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from kmirror.common.errors import ConfigError

RECREATED_POLICY_CONFIG: Final = "kmirror.recreated.topic.policy"
OFFSET, BEGINNING, STOP = RECREATED_POLICIES = ("offset", "beginning", "stop")


def recreated_policy(properties: Mapping[str, str], policies: Sequence[str] = RECREATED_POLICIES) -> str:
    """One of `policies`; ConfigError for any other."""
    given = properties.get(RECREATED_POLICY_CONFIG, OFFSET).strip().lower()
    if given not in policies:
        raise ConfigError(
            f"Invalid value {given} for configuration {RECREATED_POLICY_CONFIG}: String must be one of: {', '.join(policies)}"
        )
    return given
