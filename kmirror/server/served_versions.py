"""Which APIs and versions a broker listener serves: what has a handler, in the versions of Kafka 4.3, and what mirroring adds.

An unstable latest version, and everything of KIP-1279, is served with `unstable.api.versions.enable=true` only. Produce is
advertised from version 0, because librdkafka takes a higher minimum for a broker it does not know (KAFKA-18659).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from kmirror.wire.api_keys import API_TABLE, ApiKeys
from kmirror.wire.mirror_dialect import MIRROR_API_KEYS, mirror_dialect


class ServedRange(NamedTuple):
    """An API, its lowest and highest version as advertised, and the lowest that is really served."""

    api_key: ApiKeys
    advertised_lowest: int
    highest: int
    lowest: int


class ServedVersions:
    def __init__(self, *, unstable: bool) -> None:
        self._unstable = unstable
        self._ranges: dict[ApiKeys, ServedRange] = {}

    def add(self, api_keys: Iterable[ApiKeys]) -> None:
        for api_key in api_keys:
            served = self._range(api_key)
            if served is not None:
                self._ranges[api_key] = served

    def _range(self, api_key: ApiKeys) -> ServedRange | None:
        spec = API_TABLE[api_key]
        if api_key in MIRROR_API_KEYS and not self._unstable:
            return None
        highest = mirror_dialect().highest_version(api_key, mirroring=self._unstable)
        if spec.latest_unstable and highest == spec.highest and not self._unstable:
            highest -= 1
        if highest < spec.lowest:
            return None
        return ServedRange(api_key, 0 if api_key is ApiKeys.PRODUCE else spec.lowest, highest, spec.lowest)

    def is_served(self, api_key: ApiKeys, version: int) -> bool:
        served = self._ranges.get(api_key)
        return served is not None and served.lowest <= version <= served.highest

    def ranges(self) -> list[ServedRange]:
        """By API key."""
        return [self._ranges[api_key] for api_key in sorted(self._ranges)]
