"""The public keys that sign bearer tokens: a JSON Web Key Set in a file, or at an http: or https:
URL (Kafka's `RefreshingHttpsJwks`).

    file:             read at the start, and again when a token names a key that the set does not have
    http:, https:     fetched at the start (logins wait for it), again every `sasl.oauthbearer.jwks.endpoint.refresh.ms`, and when a token
                      names a key that the set does not have: at most once a minute for each such name

In this way keys can be rotated. Anybody can send tokens that name unknown keys, so look-ups that
found nothing are followed by a pause: `...jwks.endpoint.retry.backoff.ms` at first, doubling up to
`...retry.backoff.max.ms`. If a set cannot be read, the keys stay as they were.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any, Final, Protocol

import msgspec

from kmirror.common.errors import ConfigError
from kmirror.common.lasting_conditions import LastingConditions
from kmirror.common.ports import FileSystem
from kmirror.network.http_client import HttpError, http_get
from kmirror.runtime.api import Runtime

if TYPE_CHECKING:
    from kmirror.network.security.replaced_stores import ReplacedStores

MISSING_KEY_PAUSE_MS: Final = 60_000
MISSING_KEYS: Final = 16
MAX_KEY_ID_LENGTH: Final = 1_000
FETCH_TIMEOUT_MS: Final = 10_000
FIRST_FETCH_ATTEMPTS: Final = 3
_log = logging.getLogger(__name__)
WebKey = dict[str, Any]


class Jwks(Protocol):
    """A key set that tokens are verified with."""

    def find(self, key_id: object, now_ms: int) -> WebKey | None:
        """The key named `key_id`; if `key_id` is None, the set's only key. None if there is no such
        key.
        """
        ...


class Backoff:
    """Decides whether it is time to look again: pauses double with every look-up that found
    nothing.
    """

    def __init__(self, first_ms: int, longest_ms: int) -> None:
        self._first_ms = first_ms
        self._longest_ms = max(first_ms, longest_ms)
        self._pause_ms = first_ms
        self._next_ms = 0

    def try_begin(self, now_ms: int) -> bool:
        if now_ms < self._next_ms:
            return False
        self._next_ms = now_ms + self._pause_ms
        self._pause_ms = min(self._longest_ms, 2 * self._pause_ms)
        return True

    @property
    def pause_ms(self) -> int:
        return self._pause_ms

    def reset(self) -> None:
        self._pause_ms = self._first_ms


class FileJwks:
    """The keys in a file. ConfigError when the file cannot be read at the start."""

    def __init__(self, path: str, files: FileSystem, backoff: Backoff) -> None:
        self._path = path
        self._files = files
        self._backoff = backoff
        self._keys = self._read()

    def find(self, key_id: object, now_ms: int) -> WebKey | None:
        key = find_key(self._keys, key_id)
        if key is None and self._backoff.try_begin(now_ms):
            key = self._find_anew(key_id)
            if key is not None:
                self._backoff.reset()
        return key

    def _find_anew(self, key_id: object) -> WebKey | None:
        try:
            self._keys = self._read()
        except ConfigError as error:
            _log.error("The keys for bearer tokens could not be refreshed and stay as they are: %s", error)
        return find_key(self._keys, key_id)

    def _read(self) -> list[WebKey]:
        try:
            return keys_of(self._files.read_bytes(self._path), self._path)
        except OSError as error:
            raise ConfigError(f"Cannot read the JSON Web Key Set {self._path}: {error.strerror or error}") from error


class RefreshingJwks:
    """The keys at a URL. `loaded` is done when the first fetch has succeeded or was given up;
    logins wait for it.
    """

    def __init__(self, runtime: Runtime, url: str, context: ReplacedStores | None, backoff: Backoff, *, refresh_ms: int) -> None:
        self._runtime = runtime
        self._url = url
        self._context = context
        self._backoff = backoff
        self._refresh_ms = refresh_ms
        self._keys: list[WebKey] = []
        self._refresh_at_ms = 0
        self._missing: dict[str, int] = {}
        self._fetching: asyncio.Task[None] | None = None
        self._conditions = LastingConditions(_log, runtime.clock.monotonic_ms, level=logging.ERROR)
        self.loaded: asyncio.Future[None] = runtime.create_future()
        self._fetch(attempts=FIRST_FETCH_ATTEMPTS)

    def find(self, key_id: object, now_ms: int) -> WebKey | None:
        key = find_key(self._keys, key_id)
        if key is not None and self._missing.pop(str(key_id), None) is not None:
            self._backoff.reset()  # the last look-up found a missing key
        if now_ms >= self._refresh_at_ms or (key is None and self._may_look_for(str(key_id), now_ms)):
            self._fetch(attempts=1)
        return key

    def close(self) -> None:
        if self._fetching is not None:
            self._fetching.cancel()

    def _may_look_for(self, key_id: str, now_ms: int) -> bool:
        if len(key_id) > MAX_KEY_ID_LENGTH or now_ms < self._missing.get(key_id, 0) or not self._backoff.try_begin(now_ms):
            return False
        self._missing.pop(key_id, None)
        self._missing[key_id] = now_ms + MISSING_KEY_PAUSE_MS
        if len(self._missing) > MISSING_KEYS:
            del self._missing[next(iter(self._missing))]
        return True

    def _fetch(self, *, attempts: int) -> None:
        if self._fetching is None or self._fetching.done():
            self._refresh_at_ms = self._runtime.clock.time_ms() + self._refresh_ms
            self._fetching = self._runtime.spawn(self._fetch_keys(attempts), name="jwks")

    async def _fetch_keys(self, attempts: int) -> None:
        for attempt in range(attempts):
            try:
                body = await http_get(
                    self._runtime, self._url, context=None if self._context is None else self._context.context, timeout_ms=FETCH_TIMEOUT_MS
                )
                self._keys = keys_of(body, self._url)
                self._conditions.end(self._url)
                break
            except (HttpError, ConfigError) as error:
                self._conditions.tell(self._url, f"The keys for bearer tokens could not be refreshed and stay as they are: {error}")
                if attempt + 1 < attempts:
                    self._backoff.try_begin(self._runtime.clock.time_ms())
                    await self._runtime.sleep_ms(self._backoff.pause_ms)
        if not self.loaded.done():
            self.loaded.set_result(None)


def find_key(keys: list[WebKey], key_id: object) -> WebKey | None:
    if key_id is None and len(keys) == 1:
        return keys[0]
    return next((key for key in keys if key.get("kid") == key_id), None)


def keys_of(document: bytes, where: str) -> list[WebKey]:
    """The keys of a set; ConfigError if the document is not one."""
    try:
        decoded = msgspec.json.decode(document, type=dict[str, Any])
    except msgspec.MsgspecError as error:
        raise ConfigError(f"{where} is not a JSON Web Key Set: {error}") from error
    found = decoded.get("keys")
    return [key for key in found if isinstance(key, dict)] if isinstance(found, list) else []
