"""Levels of loggers at run time, as the BROKER_LOGGER config resource (Kafka's
`RuntimeLoggerManager`, KIP-412, KIP-676).

Names and levels are log4j's: `root` is the root logger, and FATAL, ERROR, WARN, INFO, DEBUG and
TRACE stand for Python's CRITICAL to DEBUG and a level below it. Removing a level lets the logger
inherit that of its parent again; the root logger has no parent. Loggers belong to the process, so
nodes in one process share them.

A logger is named after its module, and a module after Kafka's class. So a runbook for Kafka can be
followed: `kafka.log.LogCleaner` is `kmirror.storage.log_cleaner`, whatever package the
class is in.
"""

from __future__ import annotations

import logging
import re
from typing import Any, Final

from kmirror.common.errors import ApiException, Errors
from kmirror.common.numbers import is_integer

ROOT_LOGGER: Final = "root"
TRACE: Final = 5
LEVELS: Final = {
    "FATAL": logging.CRITICAL,
    "ERROR": logging.ERROR,
    "WARN": logging.WARNING,
    "INFO": logging.INFO,
    "DEBUG": logging.DEBUG,
    "TRACE": TRACE,
}
_SET, _DELETE, _APPEND, _SUBTRACT = range(4)
_KAFKAS_CLASS: Final = re.compile(r"(?:org\.apache\.)?kafka\.(?:\w+\.)*(?P<name>[A-Z]\w*)")
_WORD_BEGINS: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_log = logging.getLogger(__name__)
logging.addLevelName(TRACE, "TRACE")


def logger_levels() -> dict[str, str]:
    """The effective level of every logger by its name, `root` first."""
    known = logging.Logger.manager.loggerDict
    names = sorted(name for name, logger in known.items() if isinstance(logger, logging.Logger))
    return {ROOT_LOGGER: level_name(logging.getLogger())} | {name: level_name(logging.getLogger(name)) for name in names}


def level_name(logger: logging.Logger) -> str:
    """Returns the level in force, as log4j names it.

    A level between two of log4j's gets the name of the next higher one.
    """
    effective = logger.getEffectiveLevel()
    return next((name for name, level in sorted(LEVELS.items(), key=lambda item: item[1]) if level >= effective), "FATAL")


def apply_changes(resource: Any, *, node_id: int, validate_only: bool) -> None:
    """Carries out the changes of one BROKER_LOGGER resource.

    Raises ApiException, and changes nothing, if one of them is not possible.
    """
    _check_node_id(resource.resource_name, node_id)
    for change in resource.configs:
        _check(change.name, change.value, change.config_operation)
    if validate_only:
        return
    for change in resource.configs:
        is_set = change.config_operation == _SET
        for name in _python_names(change.name):
            logging.getLogger(name).setLevel(LEVELS[change.value] if is_set else logging.NOTSET)
        _log.warning("Updated the log level of %s to %s", change.name, change.value if is_set else "that of its parent")


def _check_node_id(name: str, node_id: int) -> None:
    if not is_integer(name):
        raise ApiException(Errors.INVALID_REQUEST, f"Node id must be an integer, but it is: {name}")
    if int(name) != node_id:
        raise ApiException(Errors.INVALID_REQUEST, f"Unexpected node id. Expected {node_id}, but received {name}")


def _check(name: str, level: str | None, operation: int) -> None:
    if operation in (_APPEND, _SUBTRACT):
        text = f"{'APPEND' if operation == _APPEND else 'SUBTRACT'} operation is not allowed for the BROKER_LOGGER resource"
        raise ApiException(Errors.INVALID_REQUEST, text)
    if operation not in (_SET, _DELETE):
        raise ApiException(Errors.INVALID_REQUEST, f"Unknown operations type {operation}")
    if not _python_names(name):
        raise ApiException(Errors.INVALID_CONFIG, f"Logger {name} does not exist!")
    if operation == _DELETE:
        if name == ROOT_LOGGER:
            raise ApiException(Errors.INVALID_REQUEST, f"Removing the log level of the {ROOT_LOGGER} logger is not allowed")
    elif level not in LEVELS:
        text = f"Cannot set the log level of {name} to {level} as it is not a supported log level. Valid log levels are {', '.join(sorted(LEVELS))}"
        raise ApiException(Errors.INVALID_CONFIG, text)


def _python_names(name: str) -> list[str | None]:
    """Returns the loggers that are meant, None for the root logger; empty if there is none.

    A name of Kafka's class means the loggers of the modules that are named after it.
    """
    if name == ROOT_LOGGER:
        return [None]
    known = logging.Logger.manager.loggerDict
    if isinstance(known.get(name), logging.Logger):
        return [name]
    found = _KAFKAS_CLASS.fullmatch(name)
    if found is None:
        return []
    module = "." + _WORD_BEGINS.sub("_", found["name"]).lower()
    return [one for one in sorted(known) if one.startswith("kmirror.") and one.endswith(module) and isinstance(known[one], logging.Logger)]
