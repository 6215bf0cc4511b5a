"""How a command line ends: its message about an error of the user's, and its exit code.

The message is one line, never a traceback.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Final, TextIO

from kmirror.cli.standard_streams import open_standard_streams
from kmirror.common.errors import ApiException, KmirrorError, disk_error_text

USER_ERRORS: Final = (KmirrorError, OSError)


def one_line(error: Exception) -> str:
    """Returns the text of one of USER_ERRORS; an OSError's begins with the file, if it has one."""
    if isinstance(error, ApiException):
        return error.message
    return disk_error_text(error)


def exit_code(run: Callable[[], int], *, failed: str = "", on_stdout: bool = False, failure_code: int = 1) -> int:
    """Run a command and flush its output; returns the exit code.

    It is `run`'s exit code, which argparse raises as SystemExit; `failure_code`, with `failed` and
    the reason printed, after one of USER_ERRORS; 1 if the reader of our output went away (`| head`)
    or there is no room for the output; 130 after Ctrl-C.
    """
    open_standard_streams()
    told = False
    try:
        try:
            code = run()
        except BrokenPipeError:
            raise
        except SystemExit as end:
            if not isinstance(end.code, int):
                raise
            code = end.code
        except USER_ERRORS as error:
            print(f"{failed}{one_line(error)}", file=sys.stdout if on_stdout else sys.stderr)
            told = not on_stdout
            code = failure_code
        sys.stdout.flush()
        return code
    except BrokenPipeError:
        _discard(sys.stdout, sys.stderr)
        return 1
    except OSError as error:
        _discard(sys.stdout)
        if not told:
            print(f"{failed}{one_line(error)}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


def _discard(*streams: TextIO) -> None:
    """Discard further output to these streams, including what is flushed at exit."""
    for stream in streams:
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
