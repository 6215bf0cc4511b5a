"""What a command line says about an error that is the user's to mend: one line, never a traceback."""

from __future__ import annotations

from typing import Final

from kmirror.common.errors import ApiException, KmirrorError

USER_ERRORS: Final = (KmirrorError, ApiException, OSError)


def one_line(error: Exception) -> str:
    """The text of one of USER_ERRORS; an operating system's error begins with the file, where it has one."""
    if isinstance(error, ApiException):
        return error.message
    if isinstance(error, OSError) and error.strerror is not None:
        return error.strerror if error.filename is None else f"{error.filename}: {error.strerror}"
    return str(error)
