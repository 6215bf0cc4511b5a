"""Which versions of its APIs a broker listener serves: those of Kafka 4.3, and those of mirroring.

An unstable latest version, and the versions that KIP-1279 adds, are served only with
`unstable.api.versions.enable=true`. Produce is advertised from version 0, because librdkafka takes
a broker with a higher minimum for one that it does not know (KAFKA-18659).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from kmirror.wire.api_keys import API_TABLE, ApiKeys
from kmirror.wire.mirror_dialect import mirror_dialect


class ServedRange(NamedTuple):
    """An API, the lowest and highest version advertised, and the lowest version really served."""

    api_key: ApiKeys
    advertised_lowest: int
    highest: int
    lowest: int


class ServedVersions:
    """The served ranges of `api_keys`; `unstable` adds the versions that are not stable."""

    def __init__(self, api_keys: Iterable[ApiKeys], *, unstable: bool) -> None:
        ranges = (_range(api_key, unstable=unstable) for api_key in sorted(api_keys))
        self._ranges = {served.api_key: served for served in ranges if served is not None}

    def is_served(self, api_key: ApiKeys, version: int) -> bool:
        served = self._ranges.get(api_key)
        return served is not None and served.lowest <= version <= served.highest

    def ranges(self) -> list[ServedRange]:
        """By API key."""
        return list(self._ranges.values())


def _range(api_key: ApiKeys, *, unstable: bool) -> ServedRange | None:
    """Returns None if every version is unstable and unstable versions are not served."""
    spec = API_TABLE[api_key]
    highest = mirror_dialect().highest_version(api_key, mirroring=unstable)
    if spec.latest_unstable and highest == spec.highest and not unstable:
        highest -= 1
    if highest < spec.lowest:
        return None
    return ServedRange(api_key, 0 if api_key is ApiKeys.PRODUCE else spec.lowest, highest, spec.lowest)
