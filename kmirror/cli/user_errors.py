"""How a command line ends: what it says about an error that is the user's to mend (one line, never a traceback), and its exit code."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Final, TextIO

from kmirror.common.errors import ApiException, KmirrorError, disk_error_text

USER_ERRORS: Final = (KmirrorError, OSError)


def one_line(error: Exception) -> str:
    """The text of one of USER_ERRORS; an operating system's error begins with the file, where it has one."""
    if isinstance(error, ApiException):
        return error.message
    return disk_error_text(error)


def exit_code(run: Callable[[], int], *, failed: str = "", on_stdout: bool = False, failure_code: int = 1) -> int:
    """`run`'s exit code, with all printed that it said; `failure_code` with `failed` and the reason after one of USER_ERRORS, 1 when the
    reader of our output went away (`| head`) or there is no room for it, 130 after Ctrl-C."""
    try:
        try:
            code = run()
        except BrokenPipeError:
            raise
        except USER_ERRORS as error:
            print(f"{failed}{one_line(error)}", file=sys.stdout if on_stdout else sys.stderr)
            code = failure_code
        sys.stdout.flush()
        return code
    except BrokenPipeError:
        _discard(sys.stdout, sys.stderr)
        return 1
    except OSError as error:
        _discard(sys.stdout)
        print(f"{failed}{one_line(error)}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


def _discard(*streams: TextIO) -> None:
    """Nothing more may be written to them, at exit neither."""
    for stream in streams:
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
