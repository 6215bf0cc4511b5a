"""Key and trust stores that are replaced in place are read again.

Whoever renews certificates (cert-manager, Vault, a Kubernetes secret) writes new stores under the
old names and tells nobody. A context is made from the stores as they are; before a new connection
the files are looked at again, at most every LOOK_EVERY_MS, and if their bytes have changed, the next
connections get a new context. Connections that exist stay as they are.

A store that cannot be read, or is half written, changes nothing: the last good one stays in use, and
the log says so when that begins and when it is over.
"""

from __future__ import annotations

import hashlib
import logging
import ssl
from collections.abc import Callable
from typing import Final

from kmirror.common.errors import ConfigError
from kmirror.common.lasting_conditions import LastingConditions
from kmirror.common.ports import Clock, FileSystem
from kmirror.network.security.key_stores import SslProps

LOOK_EVERY_MS: Final = 1_000
STORE_LOCATIONS: Final = ("ssl.keystore.location", "ssl.truststore.location")
_log = logging.getLogger(__name__)


class ReplacedStores:
    """Owns the TLS context that is made from `props`, and what its stores held then.

    `make(props, files)` makes a context; ConfigError if the stores cannot be read the first time.
    """

    def __init__(
        self,
        props: SslProps,
        files: FileSystem,
        clock: Clock,
        make: Callable[[SslProps, FileSystem], ssl.SSLContext],
        *,
        as_written: Callable[[str], str] = str,
    ) -> None:
        self._props = dict(props)
        self._files = files
        self._clock = clock
        self._make = make
        self._as_written = as_written
        self._paths = [path for name in STORE_LOCATIONS if (path := props.get(name))]
        self._looked_ms = clock.monotonic_ms()
        self._held = self._contents()
        self._context = make(self._props, files)
        self._conditions = LastingConditions(_log, clock.monotonic_ms)

    @property
    def context(self) -> ssl.SSLContext:
        """The context for a connection that is made now."""
        now_ms = self._clock.monotonic_ms()
        if self._paths and now_ms - self._looked_ms >= LOOK_EVERY_MS:
            self._looked_ms = now_ms
            self._look()
        return self._context

    def _look(self) -> None:
        contents = self._contents()
        if contents == self._held:
            self._conditions.end(_UNREADABLE)
            return
        try:
            self._context = self._make(self._props, self._files)
        except ConfigError as error:
            text = f"the replaced key or trust store is not used, the one before it stays: {self._as_written(str(error))}"
            self._conditions.tell(_UNREADABLE, text)
            return
        self._held = contents
        self._conditions.end(_UNREADABLE)
        _log.info("Read again, because it was replaced: %s", ", ".join(self._paths))

    def _contents(self) -> list[bytes | None]:
        return [self._digest(path) for path in self._paths]

    def _digest(self, path: str) -> bytes | None:
        try:
            return hashlib.sha256(self._files.read_bytes(path)).digest()
        except OSError:
            return None


_UNREADABLE = "unreadable"
