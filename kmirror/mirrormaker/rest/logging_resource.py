"""/admin/loggers: levels of loggers while the worker runs (Connect's `LoggingResource`).

    GET /admin/loggers             every logger: {"level": "INFO", "last_modified": 1700000000000}
    GET /admin/loggers/{logger}
    PUT /admin/loggers/{logger}    {"level": "DEBUG"}; scope=worker (default) or cluster (KIP-976)

A level holds for the logger and all below it, `root` being above all. Loggers have kmirror's names
(kmirror.mirrormaker.source_task), levels log4j's. `last_modified` is null for what was not changed here.
"""

from __future__ import annotations

import logging
from typing import Final

from kmirror.common.ports import Clock
from kmirror.mirrormaker.herder.herder import BAD_REQUEST, INTERNAL_SERVER_ERROR, NOT_FOUND, Herder, HerderError
from kmirror.mirrormaker.rest.request_forwarding import complete
from kmirror.mirrormaker.rest.rest_messages import NO_CONTENT, RestRequest, RestResponse
from kmirror.mirrormaker.rest.rest_router import Route
from kmirror.server.runtime_logger_manager import LEVELS, ROOT_LOGGER, logger_levels

OFF: Final = "OFF"
"""A level of log4j's above all others."""
_NUMBERS: Final = {**LEVELS, OFF: 2 * logging.CRITICAL}
_log = logging.getLogger(__name__)


class Loggers:
    """Of this process."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._modified: dict[str, int] = {}

    def all_levels(self) -> dict[str, dict[str, object]]:
        return {
            name: {"level": _shown(name, level), "last_modified": self._modified.get(name)}
            for name, level in sorted(logger_levels().items())
        }

    def set_level(self, namespace: str, level: str) -> list[str]:
        """Returns the loggers that had another level before, in order; none for a level that there is not,
        which only the topic of configs can ask for.
        """
        number = _NUMBERS.get(_level(level))
        if number is None:
            _log.warning("Ignoring the level %r of the logger %s, which is none", level, namespace)
            return []
        if namespace != ROOT_LOGGER:
            logging.getLogger(namespace)
        names = [name for name in logger_levels() if namespace in (name, ROOT_LOGGER) or name.startswith(f"{namespace}.")]
        loggers = {name: logging.getLogger(None if name == ROOT_LOGGER else name) for name in names}
        changed = [name for name, logger in loggers.items() if logger.getEffectiveLevel() != number]
        for logger in loggers.values():
            logger.setLevel(number)
        self._modified |= dict.fromkeys(changed, self._clock.time_ms())
        return sorted(changed)


def _level(text: str) -> str:
    return text.strip().upper()


def _shown(name: str, level: str) -> str:
    """OFF is FATAL to those who know no OFF."""
    logger = logging.getLogger(None if name == ROOT_LOGGER else name)
    return OFF if logger.getEffectiveLevel() >= _NUMBERS[OFF] else level


def logging_routes(herder: Herder, loggers: Loggers) -> list[Route]:
    async def levels(_: RestRequest) -> RestResponse:
        return RestResponse(body=loggers.all_levels())

    async def level_of(request: RestRequest) -> RestResponse:
        name = request.params["logger"]
        found = loggers.all_levels().get(name)
        if found is None:
            raise HerderError(NOT_FOUND, f"Logger {name} not found.")
        return RestResponse(body=found)

    async def set_level(request: RestRequest) -> RestResponse:
        body, name = request.json(), request.params["logger"]
        if not isinstance(body, dict):
            raise HerderError(INTERNAL_SERVER_ERROR, "Cannot read the request: a level is an object")
        level = body.get("level")
        if level is None:
            raise HerderError(BAD_REQUEST, "Desired 'level' parameter was not specified in request.")
        if _level(str(level)) not in _NUMBERS:
            raise HerderError(NOT_FOUND, f"invalid log level '{level}'.")
        (scope,) = request.query.get("scope", ["worker"])[:1]
        if scope.lower() == "cluster":
            await complete(herder.set_cluster_logger_level(name, str(level)))
            return RestResponse(NO_CONTENT)
        if scope.lower() != "worker":
            _log.warning("Received invalid scope '%s' in request to adjust logging level; will default to worker", scope)
        return RestResponse(body=loggers.set_level(name, str(level)))

    return [
        Route("GET", "/admin/loggers", levels),
        Route("GET", "/admin/loggers/{logger}", level_of),
        Route("PUT", "/admin/loggers/{logger}", set_level),
    ]
