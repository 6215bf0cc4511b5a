"""The options of kafka-dump-log, parsed as Kafka's option parser (joptsimple) does.

The messages are Kafka's, too. Only long options in full are accepted, as `--name value` or
`--name=value`. An option may be repeated only if it takes no value. Words that belong to no option
are ignored, as in Kafka. `--mirror-state-decoder` is KIP-1279's; `--json` and `--show-secrets` are
kmirror's; the rest is Apache Kafka 4.3's.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

MAX_INT: Final = 2147483647
DESCRIPTION: Final = (
    "This tool helps to parse a log file and dump its contents to the console, useful for debugging a seemingly corrupt log segment."
)
FLAGS: Final = (
    "cluster-metadata-decoder",
    "deep-iteration",
    "help",
    "index-sanity-check",
    "json",
    "mirror-state-decoder",
    "offsets-decoder",
    "print-data-log",
    "remote-log-metadata-decoder",
    "share-group-state-decoder",
    "show-secrets",
    "skip-record-metadata",
    "transaction-log-decoder",
    "verify-index-only",
    "version",
)
REQUIRED_ARGUMENT: Final = ("files", "max-bytes", "max-message-size")
OPTIONAL_ARGUMENT: Final = ("key-decoder-class", "value-decoder-class")
DECODERS: Final = (
    "offsets-decoder",
    "transaction-log-decoder",
    "cluster-metadata-decoder",
    "remote-log-metadata-decoder",
    "share-group-state-decoder",
    "mirror-state-decoder",
)
STRING_DECODER: Final = "org.apache.kafka.tools.api.StringDecoder"
HELP: Final = """\
Option                               Description
------                               -----------
--cluster-metadata-decoder           If set, log data will be parsed as cluster
                                       metadata records.
--deep-iteration                     If set, uses deep instead of shallow
                                       iteration. Automatically set if print-
                                       data-log is enabled.
--files <String: file1, file2, ...>  REQUIRED: The comma separated list of data
                                       and index log files to be dumped.
--help                               Print usage information.
--index-sanity-check                 If set, just checks the index sanity
                                       without printing its content. This is
                                       the same check that is executed on
                                       broker startup to determine if an index
                                       needs rebuilding or not.
--json                               Print JSON lines instead of text (kmirror).
--key-decoder-class [String]         If set, used to deserialize the keys. This
                                       class should implement org.apache.kafka.
                                       tools.api.Decoder trait. Custom jar
                                       should be available in kafka/libs
                                       directory. (default: org.apache.kafka.
                                       tools.api.StringDecoder)
--max-bytes <Integer: size>          Limit the amount of total batches read in
                                       bytes avoiding reading the whole .log
                                       file(s). (default: 2147483647)
--max-message-size <Integer: size>   Size of largest message. (default: 5242880)
--mirror-state-decoder               If set, log data will be parsed as mirror
                                       state data from the __mirror_state topic.
--offsets-decoder                    If set, log data will be parsed as offset
                                       data from the __consumer_offsets topic.
--print-data-log                     If set, printing the messages content when
                                       dumping data logs. Automatically set if
                                       any decoder option is specified.
--remote-log-metadata-decoder        If set, log data will be parsed as
                                       TopicBasedRemoteLogMetadataManager
                                       (RLMM) metadata records. Instead, the
                                       value-decoder-class option can be used
                                       if a custom RLMM implementation is
                                       configured.
--share-group-state-decoder          If set, log data will be parsed as share
                                       group state data from the
                                       __share_group_state topic.
--show-secrets                       Print passwords and SCRAM credentials in
                                       the cluster's metadata, which are
                                       (redacted) otherwise (kmirror).
--skip-record-metadata               Skip metadata when printing records. This
                                       flag also skips control records.
--transaction-log-decoder            If set, log data will be parsed as
                                       transaction metadata from the
                                       __transaction_state topic.
--value-decoder-class [String]       If set, used to deserialize the messages.
                                       This class should implement org.apache.
                                       kafka.tools.api.Decoder trait. Custom
                                       jar should be available in kafka/libs
                                       directory. (default: org.apache.kafka.
                                       tools.api.StringDecoder)
--verify-index-only                  If set, just verify the index log without
                                       printing its content.
--version                            Display Kafka version.
"""


class OptionError(Exception):
    """The command line is wrong; `str` is the line to print.

    `show_help` asks for the list of options below it.
    """

    def __init__(self, message: str, *, show_help: bool = False) -> None:
        self.show_help = show_help
        super().__init__(message)


@dataclass(slots=True)
class Options:
    """The command line. Sizes are bytes."""

    files: list[str] = field(default_factory=list)
    max_bytes: int = MAX_INT
    max_message_size: int = 5 * 1024 * 1024
    key_decoder_class: str = STRING_DECODER
    value_decoder_class: str = STRING_DECODER
    flags: frozenset[str] = frozenset()

    @property
    def decoder(self) -> str | None:
        """Returns the first decoder option that is set, in Kafka's order."""
        return next((name for name in DECODERS if name in self.flags), None)

    @property
    def print_data_log(self) -> bool:
        return bool(self.flags & {"print-data-log", "key-decoder-class", "value-decoder-class", *DECODERS})

    @property
    def deep_iteration(self) -> bool:
        return "deep-iteration" in self.flags or self.print_data_log


def parse(arguments: list[str]) -> Options:
    """Parse the command line; OptionError with Kafka's text for what it refuses."""
    values, flags = _split(arguments)
    options = Options(flags=frozenset(flags))
    if not arguments or flags & {"help", "version"}:
        return options
    if "files" not in values:
        raise OptionError('Missing required argument "[files]"', show_help=True)
    options.files = values["files"].split(",")
    options.max_bytes = _int(values, "max-bytes", options.max_bytes)
    options.max_message_size = _int(values, "max-message-size", options.max_message_size)
    options.key_decoder_class = values.get("key-decoder-class", STRING_DECODER)
    options.value_decoder_class = values.get("value-decoder-class", STRING_DECODER)
    return options


def _split(arguments: list[str]) -> tuple[dict[str, str], set[str]]:
    values: dict[str, str] = {}
    flags: set[str] = set()
    words = iter(range(len(arguments)))
    for index in words:
        word = arguments[index]
        if word == "--":
            break
        if not word.startswith("-") or word == "-":
            continue
        name, equals, value = word.lstrip("-").partition("=")
        if not word.startswith("--") or name not in FLAGS + REQUIRED_ARGUMENT + OPTIONAL_ARGUMENT:
            raise OptionError(f"{name if word.startswith('--') else name[:1]} is not a recognized option")
        flags.add(name)
        if name in FLAGS:
            continue
        following = arguments[index + 1] if index + 1 < len(arguments) else None
        if not equals and following is not None and (name in REQUIRED_ARGUMENT or not following.startswith("-")):
            value = following
            next(words)
        elif not equals and name in REQUIRED_ARGUMENT:
            raise OptionError(f"Option {name} requires an argument")
        if name in values:
            raise OptionError(f"Found multiple arguments for option {name}, but you asked for only one")
        if value or equals:
            values[name] = value
    return values, flags


def _int(values: dict[str, str], name: str, default: int) -> int:
    if name not in values:
        return default
    try:
        value = int(values[name])
    except ValueError:
        value = MAX_INT + 1
    if not -MAX_INT - 1 <= value <= MAX_INT:
        raise OptionError(f"Cannot parse argument '{values[name]}' of option {name}")
    return value
