"""Formatting a node's directories, as `kafka-storage format` of Kafka 4.3 does (Kafka's
`Formatter`).

Every log directory gets `meta.properties` and `bootstrap.checkpoint`; the metadata directory of a
controller that begins a dynamic quorum (`--standalone`, or `--initial-controllers` naming itself)
also gets `__cluster_metadata-0/00000000000000000000-0000000000.checkpoint` with kraft.version 1 and
itself as the only voter. The bootstrap records are the feature levels, metadata.version first, and
SCRAM credentials.

`mirror.version` can be set only if unstable feature versions are enabled (KIP-1279). Wrong
arguments raise a `FormatterError`, one line in Kafka's words.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from kmirror.common.errors import KmirrorError
from kmirror.common.ports import Clock, FileSystem, Random
from kmirror.common.uuid import Uuid
from kmirror.controller.dynamic_voter import DynamicVoter
from kmirror.controller.metadata_log import METADATA_LOG_FOLDER
from kmirror.controller.scram_argument import parse_scram_argument
from kmirror.metadata.features import (
    FEATURES,
    KRAFT_VERSION,
    LATEST_METADATA_VERSION,
    METADATA_VERSION,
    METADATA_VERSION_NAMES,
    default_level,
    metadata_version_from_string,
    unmet_dependencies,
)
from kmirror.metadata.record import ApiMessageAndVersion
from kmirror.metadata.snapshot import BOOTSTRAP_FILE_NAME, SnapshotId, encode_snapshot
from kmirror.storage.checkpoint_file import write_atomically
from kmirror.storage.meta_properties import MetaProperties, random_directory_id, read_meta_properties, write_meta_properties
from kmirror.wire.messages import voters_record
from kmirror.wire.messages.feature_level_record import FeatureLevelRecord
from kmirror.wire.messages.user_scram_credential_record import UserScramCredentialRecord


class FormatterError(KmirrorError):
    """Says why a node cannot be formatted with these arguments."""


class ListenerAddress(Protocol):
    @property
    def name(self) -> str: ...

    @property
    def host(self) -> str: ...

    @property
    def port(self) -> int: ...


class NodeConfig(Protocol):
    """The properties of a node that the tool reads; `server.kafka_config.KafkaConfig` is one."""

    @property
    def node_id(self) -> int: ...

    @property
    def is_controller(self) -> bool: ...

    @property
    def log_dirs(self) -> tuple[str, ...]: ...

    @property
    def metadata_log_dir(self) -> str: ...

    @property
    def controller_listeners(self) -> Sequence[ListenerAddress]: ...

    @property
    def quorum_voters(self) -> Mapping[int, tuple[str, int]]: ...

    @property
    def unstable_feature_versions_enable(self) -> bool: ...


class Ports(Protocol):
    """The ports that the tool needs; a `Runtime` has them."""

    @property
    def files(self) -> FileSystem: ...

    @property
    def clock(self) -> Clock: ...

    @property
    def random(self) -> Random: ...


@dataclass(frozen=True, slots=True)
class FormatOptions:
    """The tool's arguments. Tests set `directory_ids`; otherwise they are drawn at random."""

    cluster_id: str
    features: Mapping[str, int] = field(default_factory=dict)
    release_version: str | None = None
    standalone: bool = False
    no_initial_controllers: bool = False
    initial_controller: DynamicVoter | None = None
    add_scram: Sequence[str] = ()
    ignore_formatted: bool = False
    directory_ids: Mapping[str, Uuid] = field(default_factory=dict)

    @property
    def begins_quorum(self) -> bool:
        """Whether this node becomes the first voter of a dynamic quorum."""
        return self.standalone or self.initial_controller is not None


def parse_feature_argument(text: str) -> tuple[str, int]:
    """Parses `NAME=LEVEL` of --feature."""
    name, separator, level = text.partition("=")
    if not separator:
        raise FormatterError(f"Can't parse feature=level string {text}: equals sign not found.")
    if not level.strip().isdigit():
        raise FormatterError(f"Can't parse feature=level string {text}: unable to parse {level.strip()} as a short.")
    return name.strip(), int(level)


def format_node(config: NodeConfig, options: FormatOptions, ports: Ports) -> list[str]:
    """Formats the node's directories; returns the lines that the tool prints. Raises
    FormatterError, OSError or CorruptFileError."""
    levels = _feature_levels(config, options)
    _check_quorum_flags(config, options, levels)
    directories = list(dict.fromkeys([config.metadata_log_dir, *config.log_dirs]))
    unformatted = _unformatted(directories, config, options, ports.files)
    if not unformatted:
        return ["All of the log directories are already formatted."]
    records = _bootstrap_records(levels, options, ports.random)
    lines = [_bootstrap_line(records, levels[METADATA_VERSION])]
    release = f"{METADATA_VERSION} {METADATA_VERSION_NAMES[levels[METADATA_VERSION]]}"
    for directory in unformatted:
        lines.append(f"Formatting {_kind(directory, config, options)} {directory} with {release}.")
        _format_directory(directory, config, options, ports, records)
    return lines


def _feature_levels(config: NodeConfig, options: FormatOptions) -> dict[str, int]:
    """Returns the level of every feature, including kraft.version."""
    if options.release_version is not None and METADATA_VERSION in options.features:
        raise FormatterError("Use --release-version instead of --feature metadata.version=X to avoid ambiguity.")
    metadata_version = options.features.get(METADATA_VERSION, LATEST_METADATA_VERSION)
    if options.release_version is not None:
        metadata_version = _release(options.release_version)
    if metadata_version not in METADATA_VERSION_NAMES:
        raise FormatterError(f"No feature:metadata.version with feature level {metadata_version}")
    unknown = [name for name in options.features if name not in FEATURES and name != METADATA_VERSION]
    if unknown:
        known = sorted(name for name, spec in FEATURES.items() if not spec.unstable or config.unstable_feature_versions_enable)
        raise FormatterError(f"Unsupported feature: {unknown[0]}. Supported features are: {', '.join(known)}")
    levels = {METADATA_VERSION: metadata_version}
    for name in sorted(FEATURES):
        level = options.features.get(name)
        levels[name] = default_level(name, metadata_version) if level is None else _checked_level(config, name, level)
    for name in sorted(options.features):
        for needed, minimum in unmet_dependencies(name, levels[name], levels):
            raise FormatterError(f"{name} could not be set to {levels[name]} because it depends on {needed} level {minimum}")
    if KRAFT_VERSION not in options.features:
        levels[KRAFT_VERSION] = 1 if options.begins_quorum or options.no_initial_controllers else 0
    return levels


def _release(text: str) -> int:
    try:
        return metadata_version_from_string(text)
    except ValueError as error:
        known = ", ".join(METADATA_VERSION_NAMES.values())
        raise FormatterError(f"Unknown metadata.version '{text}'. Supported metadata.version are: {known}") from error


def _checked_level(config: NodeConfig, name: str, level: int) -> int:
    spec = FEATURES[name]
    if not 0 <= level <= spec.latest or (spec.unstable and level > 0 and not config.unstable_feature_versions_enable):
        raise FormatterError(f"No feature:{name} with feature level {level}")
    return level


def _check_quorum_flags(config: NodeConfig, options: FormatOptions, levels: dict[str, int]) -> None:
    if options.standalone and options.no_initial_controllers:
        raise FormatterError("argument --no-initial-controllers/-N: not allowed with argument --standalone/-s")
    if options.initial_controller is not None:
        _check_initial_controller(config, options, options.initial_controller)
    if options.standalone and not config.is_controller:
        raise FormatterError("You can only use --standalone on a controller.")
    if options.begins_quorum and config.quorum_voters:
        raise FormatterError(
            "You cannot specify controller.quorum.voters and format the node with --initial-controllers or --standalone. If you want to use "
            "dynamic quorum, please remove controller.quorum.voters and specify controller.quorum.bootstrap.servers instead."
        )
    if config.is_controller and not config.quorum_voters and not options.begins_quorum and not options.no_initial_controllers:
        raise FormatterError(
            "Because controller.quorum.voters is not set on this controller, you must specify one of the following: --standalone, "
            "--initial-controllers, or --no-initial-controllers."
        )
    if levels[KRAFT_VERSION] > 0 and (config.quorum_voters or not (options.begins_quorum or options.no_initial_controllers)):
        raise FormatterError(
            "Cannot set kraft.version to 1 unless controller.quorum.voters is empty and one of the flags --standalone, --initial-controllers, or "
            "--no-initial-controllers is used. For dynamic controllers support, try using one of --standalone, --initial-controllers, or "
            "--no-initial-controllers and removing controller.quorum.voters."
        )


def _check_initial_controller(config: NodeConfig, options: FormatOptions, voter: DynamicVoter) -> None:
    for chosen, flag in ((options.standalone, "--standalone/-s"), (options.no_initial_controllers, "--no-initial-controllers/-N")):
        if chosen:
            raise FormatterError(f"argument --initial-controllers/-I: not allowed with argument {flag}")
    if not config.is_controller or voter.node_id != config.node_id:
        raise FormatterError(
            f"Node {config.node_id} is not the voter {voter.node_id} that --initial-controllers names: format other nodes with "
            "--no-initial-controllers."
        )


def _unformatted(directories: Sequence[str], config: NodeConfig, options: FormatOptions, files: FileSystem) -> list[str]:
    """Returns the directories without a meta.properties file. Those that have one must belong to
    this cluster and this node, and are tolerated only if the options say so; Kafka checks in that
    order."""
    present = {directory: read_meta_properties(files, directory) if files.is_dir(directory) else None for directory in directories}
    for directory, properties in present.items():
        if properties is not None:
            _check_belonging(properties, f"{directory}/meta.properties", config, options)
    formatted = [directory for directory, properties in present.items() if properties is not None]
    if formatted and not options.ignore_formatted:
        raise FormatterError(
            f"Log directory {formatted[0]} is already formatted. Use --ignore-formatted to ignore this directory and format the others."
        )
    return [directory for directory, properties in present.items() if properties is None]


def _check_belonging(properties: MetaProperties, where: str, config: NodeConfig, options: FormatOptions) -> None:
    if properties.cluster_id is not None and properties.cluster_id != options.cluster_id:
        raise FormatterError(f"Invalid cluster.id in: {where}. Expected {options.cluster_id}, but read {properties.cluster_id}")
    if properties.node_id is not None and properties.node_id != config.node_id:
        raise FormatterError(
            f"Stored node id {properties.node_id} doesn't match previous node id {config.node_id} in {where}. If you moved your data, make "
            "sure your configured node id matches. If you intend to create a new node, you should remove all data in your data directories."
        )


def _kind(directory: str, config: NodeConfig, options: FormatOptions) -> str:
    if directory != config.metadata_log_dir:
        return "data directory"
    return "dynamic metadata voter directory" if options.begins_quorum else "metadata directory"


def _bootstrap_records(levels: dict[str, int], options: FormatOptions, random: Random) -> list[ApiMessageAndVersion]:
    records = [ApiMessageAndVersion(FeatureLevelRecord(name=METADATA_VERSION, feature_level=levels[METADATA_VERSION]), 0)]
    for name in sorted(FEATURES):
        if name != KRAFT_VERSION and levels[name] > 0:
            records.append(ApiMessageAndVersion(FeatureLevelRecord(name=name, feature_level=levels[name]), 0))
    return records + [ApiMessageAndVersion(parse_scram_argument(argument, random), 0) for argument in options.add_scram]


def _bootstrap_line(records: Sequence[ApiMessageAndVersion], metadata_version: int) -> str:
    texts = []
    for message, version in records:
        if isinstance(message, UserScramCredentialRecord):
            body = f"UserScramCredentialRecord(name='{message.name}', mechanism={message.mechanism}, iterations={message.iterations})"
        else:
            body = f"FeatureLevelRecord(name='{message.name}', featureLevel={message.feature_level})"
        texts.append(f"ApiMessageAndVersion({body} at version {version})")
    return f"Bootstrap metadata: BootstrapMetadata(records=[{', '.join(texts)}], metadataVersionLevel={metadata_version}, source=format command)"


def _format_directory(
    directory: str, config: NodeConfig, options: FormatOptions, ports: Ports, records: Sequence[ApiMessageAndVersion]
) -> None:
    files, clock = ports.files, ports.clock
    files.make_dirs(directory)
    directory_id = options.directory_ids.get(directory) or random_directory_id(ports.random)
    bootstrap = encode_snapshot(records, clock, last_contained_log_timestamp=0)
    write_atomically(files, f"{directory}/{BOOTSTRAP_FILE_NAME}", bootstrap)
    if options.begins_quorum and directory == config.metadata_log_dir:
        voter = options.initial_controller
        if voter is not None:
            directory_id = voter.directory_id
        _write_zero_checkpoint(directory, directory_id, _endpoints(config, voter), config, ports)
    write_meta_properties(files, directory, MetaProperties(options.cluster_id, config.node_id, directory_id), time_ms=clock.time_ms())


def _endpoints(config: NodeConfig, voter: DynamicVoter | None) -> list[voters_record.Endpoint]:
    """Returns the voter's endpoints: those of the argument, or the node's own controller
    listeners."""
    if voter is not None:
        return [voters_record.Endpoint(name=config.controller_listeners[0].name, host=voter.host, port=voter.port)]
    return [voters_record.Endpoint(name=e.name, host=e.host, port=e.port) for e in config.controller_listeners]


def _write_zero_checkpoint(
    directory: str, directory_id: Uuid, endpoints: list[voters_record.Endpoint], config: NodeConfig, ports: Ports
) -> None:
    voter = voters_record.Voter(
        voter_id=config.node_id,
        voter_directory_id=directory_id,
        endpoints=endpoints,
        kraft_version_feature=voters_record.KRaftVersionFeature(min_supported_version=0, max_supported_version=1),
    )
    voters = voters_record.VotersRecord(version=0, voters=[voter])
    last_contained = ports.clock.time_ms()
    data = encode_snapshot([], ports.clock, last_contained_log_timestamp=last_contained, kraft_version=1, voters=voters)
    folder = f"{directory}/{METADATA_LOG_FOLDER}"
    ports.files.make_dirs(folder)
    write_atomically(ports.files, f"{folder}/{SnapshotId(0, 0).file_name}", data)
    ports.files.fsync_path(directory)
