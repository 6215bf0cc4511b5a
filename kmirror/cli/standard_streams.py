"""Standard streams that a command can use however it was started.

A program that is started without one of them (`>&-`, some supervisors) gets a free descriptor 0, 1
or 2. The next file or socket that it opens takes the number, and what is meant for the terminal ends
in a log segment or in a client's connection. So the null device takes the place first: what is
printed there is dropped, as Kafka's tools do.

A terminal whose encoding lacks a character (`LC_ALL=C`) shows its code (`\\xfc`), and a file name that
is no text is written byte for byte. A name of a group is any text, and one that cannot be shown must
not end the listing of all others.
"""

from __future__ import annotations

import codecs
import os
import sys
from typing import Final

WHAT_CAN_BE_SHOWN: Final = "kmirror-what-can-be-shown"
STANDARD: Final = ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w"))


def open_standard_streams() -> None:
    """Makes `sys.stdin`, `sys.stdout` and `sys.stderr` usable, and their descriptors taken."""
    for descriptor, name, mode in STANDARD:
        _occupy(descriptor)
        if getattr(sys, name) is None:
            setattr(sys, name, open(descriptor, mode, encoding="utf-8", closefd=False))  # noqa: SIM115 - until the end
    if sys.stdout is sys.__stdout__:
        codecs.register_error(WHAT_CAN_BE_SHOWN, _shown)
        sys.stdout.reconfigure(errors=WHAT_CAN_BE_SHOWN)  # type: ignore[union-attr]


def _shown(error: UnicodeError) -> tuple[str | bytes, int]:
    try:
        return codecs.lookup_error("surrogateescape")(error)
    except UnicodeEncodeError:
        return codecs.backslashreplace_errors(error)


def _occupy(descriptor: int) -> None:
    try:
        os.fstat(descriptor)
    except OSError:
        opened = os.open(os.devnull, os.O_RDWR)  # the lowest free number, so this one or a lower one
        if opened != descriptor:
            os.dup2(opened, descriptor)
            os.close(opened)
        os.set_inheritable(descriptor, True)
