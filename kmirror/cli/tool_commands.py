"""Common options of tools with commands (`kafka-features describe`, `kafka-cluster cluster-id`).

Kafka's own tools use a port of argparse, so argparse alone gives their behaviour: usage on stderr
and exit code 1 for wrong options (not 2), `--help` on stdout and exit code 0.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Final, NoReturn

from kmirror.cli.tool_options import CommandError
from kmirror.cli.user_errors import exit_code

_REQUIRED: Final = "the following arguments are required: "
_NOT_A_NUMBER: Final = re.compile(r"(argument \S+: )invalid int value: '(.*)'")
_NO_CHOICE: Final = re.compile(r"argument [^:]+: (invalid choice: .*)")
USAGE_COLUMNS: Final = 75


class CommandParser(argparse.ArgumentParser):
    """argparse with Kafka's exit code and words for a wrong command line.

    `in_one_line` is for the tool that says no more than what is wrong (`kafka-features`).
    """

    in_one_line = False

    def error(self, message: str) -> NoReturn:
        if self.in_one_line:
            text = f"Command line error: {_in_kafkas_words(message)}. Type --help for help."
            print(text, file=sys.stderr)
            raise SystemExit(1)
        self.print_usage(sys.stderr)
        print(f"{self.prog.split()[0]}: error: {_in_kafkas_words(message)}", file=sys.stderr)
        raise SystemExit(1)


class SubcommandParser(CommandParser):
    """The parser of one command, whose usage is laid out as that of Kafka's tools: options in their
    order, alternatives last, and further lines below the tool's first word.
    """

    def format_usage(self) -> str:
        tool = self.prog.split()[0]
        lines, indent = [f"usage: {self.prog}"], " " * len(f"usage: {tool} ")
        for word in self._usage_words():
            if len(lines[-1]) + 1 + len(word) > USAGE_COLUMNS:
                lines.append(indent + word)
            else:
                lines[-1] += f" {word}"
        return "\n".join(lines) + "\n"

    def _usage_words(self) -> Iterator[str]:
        alternatives = [action for group in self._mutually_exclusive_groups for action in group._group_actions]
        for action in self._actions:
            if action not in alternatives:
                yield _usage_word(action) if action.required else f"[{_usage_word(action)}]"
        for group in self._mutually_exclusive_groups:
            opening, closing = "()" if group.required else "[]"
            words = [_usage_word(action) for action in group._group_actions]
            yield from (f"{opening if word is words[0] else ''}{word}{closing if word is words[-1] else ' |'}" for word in words)


def _usage_word(action: argparse.Action) -> str:
    name = action.option_strings[0]
    return name if action.nargs == 0 else f"{name} {action.metavar}"


def _in_kafkas_words(message: str) -> str:
    if message.startswith(_REQUIRED):
        name = message.removeprefix(_REQUIRED)
        return "too few arguments" if name.startswith("{") else f"argument {name.partition(',')[0]} is required"
    if (choice := _NO_CHOICE.fullmatch(message)) is not None:
        return choice[1]
    found = _NOT_A_NUMBER.fullmatch(message)
    return message if found is None else f'{found[1]}could not convert {found[2]!r} to Integer (For input string: "{found[2]}")'


def connection(parser: argparse.ArgumentParser, *, short: bool = False, required: bool = True) -> None:
    """Add `--bootstrap-server`, `--bootstrap-controller` and `--command-config`."""
    group = parser.add_mutually_exclusive_group(required=required)
    server = ["--bootstrap-server", "-b"] if short else ["--bootstrap-server"]
    controller = ["--bootstrap-controller", "-C"] if short else ["--bootstrap-controller"]
    config = ["--command-config", "-c"] if short else ["--command-config"]
    group.add_argument(*server, metavar="BOOTSTRAP_SERVER", help="the brokers to connect to, as host:port,host:port")
    group.add_argument(*controller, metavar="BOOTSTRAP_CONTROLLER", help="the controllers to connect to, instead of brokers")
    parser.add_argument(*config, metavar="COMMAND_CONFIG", help="a file with settings of the admin client, e.g. security.protocol")


def run_command_tool(
    parser: argparse.ArgumentParser, arguments: Sequence[str] | None, run: Callable[[argparse.Namespace], int], *, failed: str = ""
) -> int:
    """Parse and run; returns the exit code."""

    def run_parsed() -> int:
        try:
            return run(parser.parse_args(sys.argv[1:] if arguments is None else list(arguments)))
        except SystemExit as end:
            return int(end.code or 0)
        except CommandError as error:
            print(error, file=sys.stdout if error.on_stdout else sys.stderr)
            return error.code

    return exit_code(run_parsed, failed=failed)
