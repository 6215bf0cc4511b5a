"""What a client sends that is no HTTP, or no request that can be read: told in one line.

aiohttp logs such a request as an error of the program, with a traceback. It is the client's mistake,
so a filter of the logger makes one line of it: from where, and what is wrong. Errors of the program
keep their tracebacks.
"""

from __future__ import annotations

import logging
import ssl
from functools import cache
from typing import Final

MOST_CHARACTERS: Final = 200
TOLD: Final = "told by kmirror"
http_log: Final = logging.getLogger("kmirror.mirrormaker.rest.http")


@cache
def clients_mistakes() -> tuple[type[BaseException], ...]:
    from aiohttp import http_exceptions, web

    return (http_exceptions.HttpProcessingError, web.RequestPayloadError, ssl.SSLError, ConnectionError, ValueError, TimeoutError)


def tell(remote: str | None, error: BaseException) -> None:
    """aiohttp would tell the same error again when it has answered."""
    error.add_note(TOLD)
    http_log.warning("A request from %s cannot be read: %s", remote, in_one_line(error))


def in_one_line(error: BaseException) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())[:MOST_CHARACTERS]}"


class _OneLine(logging.Filter):
    def filter(self, record: logging.LogRecord) -> bool:
        error = record.exc_info[1] if isinstance(record.exc_info, tuple) else None
        if TOLD in getattr(error, "__notes__", ()):
            return False
        if error is not None and isinstance(error, clients_mistakes()):
            record.msg, record.args = "%s: %s", (record.getMessage(), in_one_line(error))
            record.exc_info = record.exc_text = None
            record.levelno, record.levelname = logging.WARNING, "WARNING"
        return True


http_log.addFilter(_OneLine())
