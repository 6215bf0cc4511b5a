"""The parser of `kafka-mirrors`: an option is declared by one call, and checked by what the call
says.

`action`, `flag`, `value`, `file` and `number` declare; the help and `check` are made from that.
argparse itself reads the words, so `--topic=t` and its error texts are argparse's. Help texts are
broken into lines by the caller, as the KIP prints them.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

from kmirror.cli.tool_options import UsageError, dest, two_columns


class _Needs(NamedTuple):
    """What an action needs.

    `config_when` and `topic_when`: when --mirror-config or --topic must be given, in the error's
    words.
    """

    server: bool
    mirror: bool
    config_when: str
    topic_when: str


class _Option(NamedTuple):
    """How an option is shown, and with which others it goes."""

    argument: str
    text: str
    only_with: tuple[str, ...] = ()
    not_with: tuple[str, ...] = ()
    may_be_empty: bool = True
    between: tuple[int, int] | None = None
    refusal: str = ""


class _Once(argparse.Action):
    """Refuses a repeated option: `--topic a --topic b` would silently act on b only."""

    def __call__(
        self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: Any, option_string: str | None = None
    ) -> None:
        if getattr(namespace, self.dest) is not None:
            parser.error(f"Found multiple arguments for option {self.dest.replace('_', '-')}, but you asked for only one")
        setattr(namespace, self.dest, values)


class MirrorsParser(argparse.ArgumentParser):
    """The options of `kafka-mirrors`.

    Where several rules are broken, the option declared first is named.
    """

    def __init__(self, description: str, epilog: str) -> None:
        super().__init__(prog="kafka-mirrors", description=description, epilog=epilog, add_help=False, allow_abbrev=False)
        self.actions: dict[str, _Needs] = {}
        self._options: dict[str, _Option] = {}

    def error(self, message: str) -> NoReturn:
        raise UsageError(message)

    # --- declarations
    # -------------------------------------------------------------------------------------------------

    def action(
        self, name: str, text: str, *, file: str = "", server: bool = True, mirror: bool = True, config_when: str = "", topic_when: str = ""
    ) -> None:
        """Add an action; its value is the file that `file` describes, if given.

        It needs --bootstrap-server and --mirror unless told.
        """
        self.actions[name] = _Needs(server, mirror, config_when, topic_when)
        if file:
            self.file(name, file, text)
        else:
            self.flag(name, text)

    def flag(self, name: str, text: str, *, only_with: tuple[str, ...] = (), not_with: tuple[str, ...] = ()) -> None:
        """Add an option without a value.

        It goes with any of `only_with`, if given, and with none of `not_with`.
        """
        self.add_argument(f"--{name}", action="store_true")
        self._options[name] = _Option("", text, only_with, not_with)

    def value(self, name: str, described_as: str, text: str, *, only_with: tuple[str, ...] = (), may_be_empty: bool = True) -> None:
        """Add an option that takes a text."""
        self._add(name, str, _Option(f"<String: {described_as}>", text, only_with, may_be_empty=may_be_empty))

    def file(self, name: str, described_as: str, text: str, *, only_with: tuple[str, ...] = ()) -> None:
        """Add an option that takes a path."""
        self._add(name, Path, _Option(f"<String: {described_as}>", text, only_with))

    def number(
        self, name: str, described_as: str, text: str, *, between: tuple[int, int], only_with: tuple[str, ...] = (), refusal: str = ""
    ) -> None:
        """Add an option that takes a whole number, from the first to the last of `between`.

        `refusal`: one error text for all its rules.
        """
        self._add(name, int, _Option(f"<{described_as}>", text, only_with, between=between, refusal=refusal))

    def _add(self, name: str, kind: Callable[[str], Any], option: _Option) -> None:
        self.add_argument(f"--{name}", type=kind, action=_Once)
        self._options[name] = option

    def format_help(self) -> str:
        """Returns the description, the options in two columns, and the epilog."""
        rows = [two_columns("Option", ["Description"]), two_columns("------", ["-----------"])]
        for name, option in sorted(self._options.items()):
            rows.append(two_columns(f"--{name} {option.argument}".rstrip(), option.text.replace("\n", "\n  ").split("\n")))
        return "\n".join([self.description or "", *rows, "", f"{self.epilog}\n"])

    def nearest(self, given: Sequence[str]) -> str:
        """Returns `; did you mean --topic?` for words that are nearly options, else nothing."""
        known = [f"--{name}" for name in self._options]
        meant = []
        for word in given:
            name = word.partition("=")[0]
            if not name.startswith("-") or name in known:
                continue
            found = get_close_matches(f"--{name.lstrip('-').replace('_', '-')}", known, n=1, cutoff=0.6)
            meant += [one for one in found if one not in meant]
        return f"; did you mean {' and '.join(meant)}?" if meant else ""

    # --- checks
    # -------------------------------------------------------------------------------------------------------

    def check(self, options: argparse.Namespace) -> str:
        """Returns the one action that was asked for; UsageError with Kafka's messages otherwise."""
        chosen = [name for name in self.actions if _given(options, name)]
        if len(chosen) != 1:
            *others, last = (f"--{name}" for name in self.actions)
            raise UsageError(f"Command must include exactly one action: {', '.join(others)}, or {last}")
        needs = self.actions[chosen[0]]
        if needs.server and not options.bootstrap_server:
            raise UsageError("--bootstrap-server must be specified")
        if needs.mirror and not options.mirror:
            raise UsageError("--mirror must be specified")
        if needs.config_when and options.mirror_config is None:
            raise UsageError(f"--mirror-config must be specified when {needs.config_when}")
        if needs.topic_when and not options.topic:
            raise UsageError(f"--topic must be specified when {needs.topic_when}")
        for check in (_check_company, _check_enemies, _check_number):
            for name, option in self._options.items():
                if _given(options, name):
                    check(options, name, option)
        return chosen[0]


def _given(options: argparse.Namespace, name: str) -> bool:
    value = getattr(options, dest(name))
    return value is not None and value is not False


def _check_company(options: argparse.Namespace, name: str, option: _Option) -> None:
    if not option.refusal and option.only_with and not any(_given(options, other) for other in option.only_with):
        *others, last = [f"--{other}" for other in option.only_with]
        raise UsageError(f"--{name} can be used with {', '.join(others)}{' and ' if others else ''}{last} only")
    if not option.may_be_empty and getattr(options, dest(name)) == "":
        raise UsageError(f"--{name} must not be empty")


def _check_enemies(options: argparse.Namespace, name: str, option: _Option) -> None:
    for other in option.not_with:
        if _given(options, other):
            raise UsageError(f"--{name} can not be used with --{other}")


def _check_number(options: argparse.Namespace, name: str, option: _Option) -> None:
    if option.between is None:
        return
    lowest, highest = option.between
    is_in_range = lowest <= getattr(options, dest(name)) <= highest
    if option.refusal and not (is_in_range and any(_given(options, other) for other in option.only_with)):
        raise UsageError(f"--{name} {option.refusal}")
    if not is_in_range:
        raise UsageError(f"--{name} takes a number from {lowest} on")
