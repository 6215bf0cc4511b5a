"""Options of the `kafka-*` tools: argparse's table, read by the rules of Kafka's option parser.

These rules differ from argparse's. There are `--option value` and `--option=value`, and the value
of an option that needs one is the next word whatever it looks like (`--time -1`). There are no
abbreviations. An option that takes one value may not be given twice. Errors are reported in Kafka's
words, followed by the usage, on stderr, with exit code 1. `--help` and a command line without
arguments print the usage in the same way.

A tool is a `ToolParser`, a check of which options go together, and a function; `run_tool` combines
the three.
"""

from __future__ import annotations

import argparse
import json
import sys
import textwrap
from collections.abc import Callable, Iterable, Sequence
from itertools import zip_longest
from typing import Any, Final, NoReturn

from kmirror.cli.user_errors import exit_code
from kmirror.common.errors import KmirrorError

KAFKA_VERSION: Final = "4.3.0"
"""What `--version` prints: the Kafka release that these tools follow."""

COLUMN: Final = 40
INTEGERS: Final = {"Integer": 32, "Long": 64, "Short": 16}


class UsageError(Exception):
    """The command line is wrong; the usage is printed below the text if `show_help` is set."""

    def __init__(self, message: str, *, show_help: bool = True) -> None:
        self.show_help = show_help
        super().__init__(message)


class CommandError(Exception):
    """The command failed; the text is printed as it is.

    It goes to stdout if `on_stdout` is set, else to stderr. `code` is the exit code.
    """

    def __init__(self, message: str, *, code: int = 1, on_stdout: bool = False) -> None:
        self.code = code
        self.on_stdout = on_stdout
        super().__init__(message)


class ToolParser(argparse.ArgumentParser):
    """The options of one tool. `--help` and `--version` are always there."""

    def __init__(self, tool: str, description: str) -> None:
        super().__init__(prog=tool, description=description, add_help=False, allow_abbrev=False)
        self._rows: dict[str, tuple[str, str, str | None, Any]] = {}
        self.flag("help", "Print usage information.")
        self.flag("version", "Display Kafka version.")

    def error(self, message: str) -> NoReturn:
        raise UsageError(message)

    def flag(self, name: str, text: str) -> None:
        """Add an option without a value."""
        self.add_argument(f"--{name}", dest=dest(name), action="store_true")
        self._rows[name] = (text, "", None, None)

    def value(self, name: str, described_as: str, text: str, *, kind: str = "String", default: Any = None, many: bool = False) -> None:
        """Add an option with a value. `kind` is String, Integer, Long or Short.

        With `many` it may be given several times and is a list.
        """
        if many:
            self.add_argument(f"--{name}", dest=dest(name), action="append", default=[])
        else:
            self.add_argument(f"--{name}", dest=dest(name), default=default)
        self._rows[name] = (text, f"<{kind}{': ' + described_as if described_as else ''}>", kind, None if many else default)

    def optional_value(self, name: str, described_as: str, text: str, *, many: bool = False) -> None:
        """Add an option whose value may be missing (then it is "")."""
        if many:
            self.add_argument(f"--{name}", dest=dest(name), action="append", nargs="?", const="", default=[])
        else:
            self.add_argument(f"--{name}", dest=dest(name), nargs="?", const="")
        self._rows[name] = (text, f"[String{': ' + described_as if described_as else ''}]", "?", None)

    def connection(self, *, bootstrap_text: str = "REQUIRED: the brokers to connect to, as host:port,host:port.") -> None:
        """Add `--bootstrap-server` and `--command-config`."""
        self.value("bootstrap-server", "server to connect to", bootstrap_text)
        self.value("command-config", "command config property file", "A file with settings of the admin client, e.g. security.protocol.")

    def json_flag(self, text: str = "Print JSON instead of Kafka's text.") -> None:
        self.flag("json", text)

    def parse(self, arguments: Sequence[str]) -> argparse.Namespace:
        """Returns the options; UsageError or KmirrorError with Kafka's text for what is refused.

        `given` has the names of the given options, `order` is a list of them in their order, with
        repetitions, and `words` is the command line as it was.
        """
        words, order = self._normal(arguments)
        options = self.parse_args(words)
        options.given = frozenset(order)
        options.order = order
        options.words = list(arguments)
        for name, (_, _, kind, _) in self._rows.items():
            if kind in INTEGERS and getattr(options, dest(name)) is not None:
                setattr(options, dest(name), _integer(name, getattr(options, dest(name)), INTEGERS[kind]))
        return options

    def _normal(self, arguments: Sequence[str]) -> tuple[list[str], list[str]]:
        """Returns every option as one word, and the names that are given.

        So argparse need not guess what a value is.
        """
        words: list[str] = []
        given: list[str] = []
        left = list(arguments)
        while left:
            word = left.pop(0)
            if not word.startswith("-") or word == "-":
                continue
            name, equals, value = word.lstrip("-").partition("=")
            if not word.startswith("--") or name not in self._rows:
                raise UsageError(f"{name if word.startswith('--') else name[:1]} is not a recognized option", show_help=False)
            _, _, kind, _ = self._rows[name]
            is_list = isinstance(self.get_default(dest(name)), list)
            if kind is not None and not is_list and name in given:
                raise KmirrorError(f"Found multiple arguments for option {name}, but you asked for only one")
            given.append(name)
            if kind is None:
                words.append(f"--{name}")
                continue
            if not equals and left and (kind != "?" or not left[0].startswith("-")):
                equals, value = "=", left.pop(0)
            if not equals and kind != "?":
                raise UsageError(f"Option {name} requires an argument", show_help=False)
            words.append(f"--{name}{equals}{value}")
        return words, given

    def format_help(self) -> str:
        """Returns the help in two columns, as in Kafka's tools."""
        lines = [two_columns("Option", ["Description"]), two_columns("------", ["-----------"])]
        for name, (text, argument, _, default) in sorted(self._rows.items()):
            shown = text if default is None else f"{text} (default: {default})"
            lines.append(two_columns(f"--{name} {argument}".rstrip(), _wrapped(shown)))
        return "\n".join(lines) + "\n"


def dest(name: str) -> str:
    return name.replace("-", "_").replace(".", "_")


def two_columns(left: str, rights: Sequence[str]) -> str:
    """Returns a row of a help text: `left` is broken where it must be, `rights` are lines."""
    lefts = textwrap.wrap(left, COLUMN - 2, subsequent_indent="  ", break_on_hyphens=False)
    return "\n".join(f"{a:<{COLUMN}}{b}".rstrip() for a, b in zip_longest(lefts, rights, fillvalue=""))


def _wrapped(text: str) -> list[str]:
    return [
        line
        for paragraph in text.split("\n")
        for line in textwrap.wrap(paragraph, COLUMN - 2, subsequent_indent="  ", break_long_words=False) or [""]
    ]


def _integer(name: str, text: Any, bits: int) -> int:
    try:
        value = int(text)
    except ValueError:
        value = 1 << 63
    if not -(1 << bits - 1) <= value < 1 << bits - 1:
        raise KmirrorError(f"Cannot parse argument '{text}' of option {name}")
    return value


# --- which options go together --------------------------------------------------------------------


def require(options: argparse.Namespace, *names: str) -> None:
    """Raise UsageError unless each of `names` is given."""
    for name in names:
        if name not in options.given:
            raise UsageError(f'Missing required argument "[{name}]"')


def refuse(options: argparse.Namespace, name: str, others: Iterable[str]) -> None:
    """Raise UsageError if `name` is given together with any of `others`."""
    if name in options.given:
        for other in others:
            if other in options.given:
                raise UsageError(f'Option "[{name}]" can\'t be used with option "[{other}]"')


def key_values(texts: Iterable[str], *, accept_missing_value: bool = True) -> dict[str, str]:
    """Parse `key=value` words; the value may contain further equals signs."""
    values = {}
    for text in texts:
        key, _, value = text.partition("=")
        if not value and not accept_missing_value:
            raise CommandError(f"Missing value for key {key}")
        values[key] = value
    return values


# --- running
# ----------------------------------------------------------------------------------------------------------


def print_json(value: Any) -> None:
    print(json.dumps(value, indent=2))


def run_tool(
    parser: ToolParser,
    arguments: Sequence[str] | None,
    check: Callable[[argparse.Namespace], None],
    run: Callable[[argparse.Namespace], int],
    *,
    failed: str = "",
    failed_on_stdout: bool = False,
    failure_code: int = 1,
    version: str = KAFKA_VERSION,
) -> int:
    """Parse, check and run; returns the exit code.

    After a failure, `failed` is printed before the reason, as Kafka's tool does, and the exit code
    is `failure_code`.
    """
    given = list(sys.argv[1:] if arguments is None else arguments)

    def run_checked() -> int:
        try:
            if not given or "--help" in given:
                raise UsageError(parser.description or "")
            options = parser.parse(given)
            if options.version:
                print(version)
                return 0
            check(options)
            return run(options)
        except UsageError as error:
            print(error, file=sys.stderr)
            if error.show_help:
                sys.stderr.write(parser.format_help())
            return 1
        except CommandError as error:
            print(error, file=sys.stdout if error.on_stdout else sys.stderr)
            return error.code

    return exit_code(run_checked, failed=failed, on_stdout=failed_on_stdout, failure_code=failure_code)
