"""Converts a MirrorMaker 2 configuration to cluster mirrors. No I/O.

For each flow of a file (`mirrormaker.flows`) it returns what to run and what has no counterpart
(`mm2_no_counterpart`).

A flow becomes a mirror at its target: a config file, and the commands that create the mirror and
add the topics. The two systems differ in kind, so every property of the file ends up in exactly one
place: it is converted, or listed with the reason why it has no counterpart. Above all, a mirrored
topic keeps its name. So a policy that prefixes names is dropped, and a topic can be mirrored in one
direction only. Mirroring also starts afresh (KIP-1279: not compatible with MM2), so what MM2
created at the target must be deleted first.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from kmirror.cli.mm2_no_counterpart import reason_without_counterpart
from kmirror.common.errors import ConfigError
from kmirror.metadata.mirror_names import topic_name_problem
from kmirror.metadata.resource_configs import MIRROR_CONFIGS
from kmirror.mirrormaker.connector_config import with_prefix
from kmirror.mirrormaker.file_warnings import alias_warnings, comment_warnings
from kmirror.mirrormaker.flows import enabled_flows
from kmirror.mirrormaker.mirror_maker_config import names_of_connectors
from kmirror.mirrormaker.property_names import words
from kmirror.network.config_providers import has_references

MAX_REPLICATION_FACTOR: Final = 32_767
DEFAULT_TOPICS_EXCLUDE: Final = r"mm2.*\.internal,.*\.replica,__.*"
DEFAULT_GROUPS_EXCLUDE: Final = "console-consumer-.*,connect-.*,__.*"
IDENTITY_POLICIES: Final = ("IdentityReplicationPolicy", "LegacyReplicationPolicy")

SECURITY_PREFIXES: Final = ("sasl.", "ssl.", "security.protocol")
NOTHING: Final = "(?!)"
"""A regular expression that matches nothing."""
FLAGS: Final = re.compile(r"\(\?([ims]+)\)")
"""Flags of a regular expression that mean the same in Java and in Python."""
EXPRESSION: Final = re.compile(r"\$\{[^}]*\}")
"""What a ConfigProvider would replace (Kafka's `ConfigTransformer`)."""

SIDE: Final = re.compile(r"^(?:source|target)\.(?:cluster\.)?")
"""What a flow's setting for the clients of one cluster begins with."""

NO_REFERENCE: Final = "a mirror's config holds values, or references like ${file:path:key}: resolve this expression first"
TOOL_PROVIDERS: Final = "file, dir or env, or by config.providers in the same file"
RESOLVED_BY_BROKERS: Final = "the brokers of {} resolve it, by config.providers in their properties; the commands, as " + TOOL_PROVIDERS


@dataclass(frozen=True, slots=True)
class NameList:
    """A list of names or expressions, and one that it is less; `pattern` stands for both."""

    include: list[str]
    exclude: list[str]
    pattern: str


@dataclass(slots=True)
class ConvertedFlow:
    """One flow as a mirror. `not_converted` maps property to reason, in the order of the file."""

    source: str
    target: str
    mirror_name: str
    source_bootstrap: str
    target_bootstrap: str
    mirror_configs: dict[str, str]
    command_configs: dict[str, str]
    """Settings with which an operator's tool reaches the target; empty if it is not secured."""
    lists: dict[str, NameList]
    """`topics`, and `groups` if the file has the list or the mirror copies offsets."""
    replication_factor: int | None = None
    notes: list[str] = field(default_factory=list)
    not_converted: dict[str, str] = field(default_factory=dict)

    @property
    def topic_pattern(self) -> str:
        """Which topics the mirror gets, for --topic."""
        return self.lists["topics"].pattern

    @property
    def config_file(self) -> str:
        """The name of the file for --mirror-config."""
        return f"{self.mirror_name}.properties"

    @property
    def command_file(self) -> str:
        """The name of the file for --command-config.

        It is one per flow: flows to the same target may reach it in different ways.
        """
        return f"{self.mirror_name}.command.properties"


def convert(properties: Mapping[str, str]) -> list[ConvertedFlow]:
    """Returns the enabled flows. ConfigError when the file lacks what a flow needs."""
    converted = [_convert_flow(*flow) for flow in enabled_flows(properties)]
    _note_both_directions(converted)
    for warning in alias_warnings(properties, words(properties.get("clusters", "")), names_of_connectors()):
        for flow in converted:
            flow.notes.append(warning)
    return converted


def _convert_flow(source: str, target: str, flow: dict[str, str], settings: Mapping[str, str]) -> ConvertedFlow:
    servers = {}
    for alias in (source, target):
        servers[alias] = ",".join(words(settings.get(f"{alias}.bootstrap.servers", "")))
        if not servers[alias]:
            raise ConfigError(f"flow {source}->{target} needs {alias}.bootstrap.servers")
    name = _mirror_name(source, target)
    converted = ConvertedFlow(
        source, target, name, servers[source], servers[target],
        mirror_configs={"bootstrap.servers": servers[source]},
        command_configs=_security("target", target, flow, settings, ("producer.", "consumer.", "admin.")),
        lists={"topics": _name_list("topics", flow, DEFAULT_TOPICS_EXCLUDE)},
    )  # fmt: skip
    used = {"topics", "topics.exclude"}
    _convert_replication_factor(converted, flow, used)
    _convert_security(converted, flow, settings)
    _convert_groups(converted, flow, used)
    _convert_configs_and_acls(converted, flow, used)
    _convert_policy(converted, flow, used)
    _list_the_rest(converted, flow, settings, used)
    _point_at_expressions(converted)
    converted.notes += comment_warnings({name: value for name, value in flow.items() if name in used})
    return converted


def _convert_replication_factor(converted: ConvertedFlow, flow: Mapping[str, str], used: set[str]) -> None:
    used.add("replication.factor")
    text = flow.get("replication.factor", "-1")
    if text.isdecimal() and 1 <= int(text) <= MAX_REPLICATION_FACTOR:
        converted.replication_factor = int(text)
    elif text != "-1":
        converted.not_converted["replication.factor"] = f"{text} is not a replication factor"


def _point_at_expressions(converted: ConvertedFlow) -> None:
    """Note where the converted files and commands contain expressions, which stay as they are.

    References to config providers in security settings are resolved where they are used. Any other
    expression must be replaced before the commands are run.
    """
    places = [
        (f"{converted.target}.bootstrap.servers", converted.target_bootstrap, "the commands"),
        ("topics or topics.exclude", converted.topic_pattern, "the commands"),
        *((name, value, "the mirror's config file") for name, value in converted.mirror_configs.items()),
        *((name, value, converted.command_file) for name, value in converted.command_configs.items()),
    ]
    for name, value, where in places:
        if name.startswith(SECURITY_PREFIXES) and has_references({name: value}):
            who = (
                f"the commands resolve it, as {TOOL_PROVIDERS}"
                if where == converted.command_file
                else RESOLVED_BY_BROKERS.format(converted.target)
            )
            converted.notes.append(f"{name} in {where} holds a reference to a config provider: {who}")
        elif EXPRESSION.search(value):
            converted.notes.append(f"put the value of {name} into {where}: it holds an expression")


def _mirror_name(source: str, target: str) -> str:
    """Returns the mirror's name for a flow; a failback uses it again, at the source (C8)."""
    name = f"{source}-to-{target}"
    problem = topic_name_problem(name)
    if problem is not None:
        raise ConfigError(f"aliases {source} and {target} do not make the name of a mirror: {problem}")
    return name


def _name_list(what: str, flow: Mapping[str, str], default_exclude: str) -> NameList:
    """The pattern is one regular expression that matches a list of them except another list.

    List entries cannot contain commas. A blank list matches nothing.
    """
    include, exclude = flow.get(what, ".*"), flow.get(f"{what}.exclude", default_exclude)
    wanted = "|".join(_scoped(words(include))) or NOTHING
    unwanted = "|".join(_scoped(words(exclude)))
    selection = f"(?!(?:{unwanted})$)(?:{wanted})" if unwanted else wanted
    try:
        re.compile(selection)
    except re.error as error:
        raise ConfigError(f"{what} = {include} without {what}.exclude = {exclude} is not a regular expression: {error.msg}") from error
    return NameList(words(include), words(exclude), selection)


def _scoped(words: Iterable[str]) -> Iterator[str]:
    """Yields each entry with the flags that apply to it.

    MirrorMaker 2 joins a list by `|`, so flags at the beginning of an entry (`(?i)orders.*`) also
    apply to all later entries, but not to earlier ones.
    """
    flags = ""
    for word in words:
        given = FLAGS.match(word)
        if given is not None:
            flags, word = "".join(sorted({*flags, *given[1]})), word[given.end() :]
        yield f"(?{flags}:{word})" if flags else word


def _security(side: str, alias: str, flow: Mapping[str, str], settings: Mapping[str, str], roles: tuple[str, ...]) -> dict[str, str]:
    """Returns the security settings of a cluster's clients.

    As in Apache Kafka a cluster's beat a flow's, unless the flow's name side and client (DG7). A
    flow's bare settings reach no client there; here they count where the cluster has none, because
    a mirror needs them.
    """
    found: dict[str, str] = {}
    for where, prefix in (
        (flow, ""),
        (flow, f"{side}.cluster."),
        (settings, f"{alias}."),
        *((settings, f"{alias}.{role}") for role in roles),
        *((flow, f"{side}.{role}") for role in roles),
    ):
        found |= {name: value for name, value in with_prefix(where, prefix).items() if name.startswith(SECURITY_PREFIXES)}
    return dict(sorted(found.items()))


def _convert_security(converted: ConvertedFlow, flow: Mapping[str, str], settings: Mapping[str, str]) -> None:
    for name, value in _security("source", converted.source, flow, settings, ("admin.", "consumer.")).items():
        if name not in MIRROR_CONFIGS:
            converted.not_converted[f"{converted.source}.{name}"] = "a mirror has no setting of this name"
        else:
            converted.mirror_configs[name] = value
            if EXPRESSION.search(value) and not has_references({name: value}):
                converted.not_converted[f"{converted.source}.{name}"] = NO_REFERENCE


def _convert_groups(converted: ConvertedFlow, flow: Mapping[str, str], used: set[str]) -> None:
    used |= {"groups", "groups.exclude", "sync.group.offsets.enabled", "emit.checkpoints.enabled"}
    is_off = (
        flow.get("emit.checkpoints.enabled", "true").lower() == "false"
        or flow.get("sync.group.offsets.enabled", "false").lower() == "false"
    )
    if is_off:
        with suppress(ConfigError):  # nobody needs the pattern
            converted.lists |= {"groups": _name_list("groups", flow, DEFAULT_GROUPS_EXCLUDE)} if "groups" in flow else {}
        converted.mirror_configs["mirror.groups.include"] = NOTHING
        text = "no group's offsets are copied, as in this configuration (sync.group.offsets.enabled is false unless it is set)"
        converted.notes.append(f"{text}; without the line mirror.groups.include all groups' are, exactly")
        return
    converted.lists["groups"] = _name_list("groups", flow, DEFAULT_GROUPS_EXCLUDE)
    converted.mirror_configs["mirror.groups.include"] = converted.lists["groups"].pattern


def _convert_configs_and_acls(converted: ConvertedFlow, flow: Mapping[str, str], used: set[str]) -> None:
    used |= {"sync.topic.configs.enabled", "config.properties.exclude", "sync.topic.acls.enabled"}
    if flow.get("sync.topic.configs.enabled", "true").lower() == "false":
        converted.mirror_configs["mirror.topic.properties.exclude"] = ".*"
        text = "mirrored topics have the target's defaults: MirrorMaker 2 makes topics with the source's settings, also if it does not"
        converted.notes.append(f"{text} copy later changes; without the line mirror.topic.properties.exclude they follow the source's")
    elif "config.properties.exclude" in flow:
        converted.mirror_configs["mirror.topic.properties.exclude"] = ",".join(words(flow["config.properties.exclude"]))
    if flow.get("sync.topic.acls.enabled", "true").lower() == "false":
        converted.mirror_configs["mirror.acl.include"] = f"TOPIC;{NOTHING}"
        return
    converted.mirror_configs["mirror.acl.include"] = f"TOPIC;{converted.topic_pattern}"
    text = "ACLs of topics are copied as they are, WRITE too: a mirrored topic is read-only, and after a failover its writers may write"
    converted.notes.append(f"{text}; MirrorMaker 2 leaves WRITE out")


def _convert_policy(converted: ConvertedFlow, flow: Mapping[str, str], used: set[str]) -> None:
    used.add("replication.policy.class")
    policy = flow.get("replication.policy.class", "").rpartition(".")[2]
    if policy in IDENTITY_POLICIES:
        return
    name = policy or "DefaultReplicationPolicy"
    converted.not_converted["replication.policy.class"] = (
        f"{name} gives replicated topics other names ({converted.source}.orders); a mirrored topic keeps its name: consumers of "
        f"{converted.source}.orders have to read orders"
    )


def _list_the_rest(converted: ConvertedFlow, flow: Mapping[str, str], settings: Mapping[str, str], used: set[str]) -> None:
    """Add every property that is left to `not_converted`, with the reason."""
    for name in flow:
        if name in used or name.startswith(SECURITY_PREFIXES) or _is_security(SIDE.sub("", name)):
            continue
        reason = reason_without_counterpart(name)
        if reason:
            converted.not_converted[name] = reason
    for alias in (converted.source, converted.target):
        for name in settings:
            bare = name.removeprefix(f"{alias}.")
            if not name.startswith(f"{alias}.") or bare == "bootstrap.servers" or _is_security(bare):
                continue
            reason = reason_without_counterpart(bare)
            if reason:
                converted.not_converted[name] = reason
    if "replication.factor" not in flow:
        converted.notes.append(
            "MirrorMaker 2 makes topics with replication factor 2; without --replication-factor it is the target's default"
        )
    topics = f"topics and internal topics that MirrorMaker 2 made at {converted.target} have to be deleted first"
    converted.notes.append(f"stop MirrorMaker 2; {topics}: a mirror begins from the source's log start, with the source's offsets")
    converted.notes.append("topics that are made at the source later are mirrored when the --add command is given again")


def _is_security(bare: str) -> bool:
    return bare.removeprefix("consumer.").removeprefix("producer.").removeprefix("admin.").startswith(SECURITY_PREFIXES)


def _note_both_directions(flows: list[ConvertedFlow]) -> None:
    for flow in flows:
        if any(other is not flow and other.source == flow.target and other.target == flow.source for other in flows):
            text = f"{flow.target} also replicates to {flow.source}: a topic can be mirrored in one direction only"
            flow.notes.append(f"{text}, the other cluster's is read-only; give the two --add commands topics that do not overlap")
