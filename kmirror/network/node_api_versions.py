"""Which version of an API two ends speak: Kafka's `NodeApiVersions`.

Both ends know a range of versions of each API. The highest version in both ranges is spoken, within
the bounds that a caller gives.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

from kmirror.common.errors import Errors
from kmirror.network.client_errors import UnsupportedVersionError
from kmirror.network.client_requests import RequestMessage
from kmirror.wire.api_keys import API_TABLE, ApiKeys
from kmirror.wire.framing import read_response
from kmirror.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse

CLIENT_SOFTWARE_NAME: Final = "kmirror"
_ERROR_CODE = slice(4, 6)
"""Where a response of ApiVersions has its error, behind the correlation id, in every version."""


class NodeApiVersions:
    """What the node at `address` supports; nothing until `ask` has returned."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._ranges: dict[int, tuple[int, int]] = {}
        self.response = ApiVersionsResponse()

    async def ask(self, exchange: Callable[[RequestMessage, int], Awaitable[memoryview]], software_version: str) -> None:
        """Asks the node in our highest version of ApiVersions, then in the highest that it names if that
        was too high. UnsupportedVersionError if it refuses both.
        """
        version = API_TABLE[ApiKeys.API_VERSIONS].highest
        request = ApiVersionsRequest(client_software_name=CLIENT_SOFTWARE_NAME, client_software_version=software_version)
        response = _read(await exchange(request, version), version)
        if response.error_code == Errors.UNSUPPORTED_VERSION:
            known = [entry.max_version for entry in response.api_keys if entry.api_key == ApiKeys.API_VERSIONS]
            version = min([version, *known]) if known else 0
            response = _read(await exchange(request, version), version)
        if response.error_code != Errors.NONE:
            raise UnsupportedVersionError(f"{self._address} refused ApiVersions: {Errors.for_code(response.error_code).name}")
        self.response = response
        self._ranges = {entry.api_key: (entry.min_version, entry.max_version) for entry in response.api_keys}

    def choose(self, api_key: int, *, version: int | None, max_version: int | None) -> int:
        """Returns the highest version that both ends know: exactly `version` if given, at most
        `max_version` if given. UnsupportedVersionError if there is none.
        """
        spec = API_TABLE[ApiKeys(api_key)]
        offered = self._ranges.get(api_key)
        if offered is None:
            raise UnsupportedVersionError(f"{self._address} does not support {ApiKeys(api_key).name}")
        lowest, highest = max(offered[0], spec.lowest), min(offered[1], spec.highest)
        if max_version is not None:
            highest = min(highest, max_version)
        if version is not None:
            lowest, highest = max(lowest, version), min(highest, version)
        if lowest > highest:
            wanted = f"version {version}" if version is not None else f"versions {spec.lowest} to {spec.highest}"
            raise UnsupportedVersionError(
                f"{self._address} supports {ApiKeys(api_key).name} in versions {offered[0]} to {offered[1]}, but kmirror asked for {wanted}"
            )
        return highest


def _read(frame: memoryview, version: int) -> ApiVersionsResponse:
    """Reads an answer, which is of version 0 where the version that was asked is unknown (KIP-511)."""
    error_code = int.from_bytes(frame[_ERROR_CODE], "big", signed=True)
    response = read_response(ApiKeys.API_VERSIONS, 0 if error_code == Errors.UNSUPPORTED_VERSION else version, frame)[1]
    assert isinstance(response, ApiVersionsResponse), f"read_response gave {type(response).__name__}"
    return response
