"""Checks across a node's settings, with Kafka's order and words (`KafkaConfig.validateValues`)."""

from __future__ import annotations

from typing import Any

from kmirror.common.abstract_config import AbstractConfig
from kmirror.common.errors import ConfigError
from kmirror.common.numbers import is_integer
from kmirror.coordinator.group.consumer_group_manager import ASSIGNORS
from kmirror.server.node_listeners import NodeListeners
from kmirror.server.quorum_config import QuorumConfig


def _require(condition: Any, message: str) -> None:
    if not condition:
        raise ConfigError(f"requirement failed: {message}")


def validate(config: AbstractConfig, listeners: NodeListeners, quorum: QuorumConfig, *, is_broker: bool, is_controller: bool) -> None:
    """Kafka's checks across settings, with its texts."""
    node_id = config.get_int("node.id")
    if config.get_int("broker.id") not in (-1, node_id) and "broker.id" in config.props:
        raise ConfigError("You must set `node.id` to the same value as `broker.id`.")
    _require(
        config.get_list("log.dirs") or config.get_list("log.dir"), "At least one log directory must be defined via log.dirs or log.dir."
    )
    _validate_log_settings(config)
    _validate_quorum(quorum, node_id, is_controller=is_controller)
    if is_controller:
        _validate_controller_listeners(listeners, is_broker=is_broker)
    else:
        _validate_broker_only(listeners)
    if is_broker:
        _validate_broker_listeners(config, listeners)
        _validate_consumer_groups(config)
    _validate_early_start_listeners(config, listeners)
    for listener in listeners.advertised:
        is_advertised = "advertised.listeners" in config.props or listener.name not in listeners.controller_names
        _require(
            not (is_advertised and listener.host == "0.0.0.0"),
            "advertised.listeners cannot use the nonroutable meta-address 0.0.0.0. Use a routable IP address.",
        )


def _validate_consumer_groups(config: AbstractConfig) -> None:
    """Checks that each setting of consumer groups lies within its bounds.

    Kafka's texts name only the settings.
    """
    for setting in ("heartbeat.interval.ms", "session.timeout.ms", "assignment.interval.ms"):
        name, least, most = (f"group.consumer.{bound}{setting}" for bound in ("", "min.", "max."))
        value, lowest, highest = config.get_int(name), config.get_int(least), config.get_int(most)
        _require_plainly(highest >= lowest, f"{most} must be greater than or equal to {least}")
        _require_plainly(value >= lowest, f"{name} must be greater than or equal to {least}")
        _require_plainly(value <= highest, f"{name} must be less than or equal to {most}")
    heartbeat, session = "group.consumer.heartbeat.interval.ms", "group.consumer.session.timeout.ms"
    _require_plainly(config.get_int(heartbeat) < config.get_int(session), f"{heartbeat} must be less than {session}")
    for name in config.get_list("group.consumer.assignors"):
        if name not in ASSIGNORS:
            raise ConfigError(f"{name} is not an assignor: group.consumer.assignors takes {', '.join(ASSIGNORS)}")


def _require_plainly(condition: bool, message: str) -> None:
    if not condition:
        raise ConfigError(message)


def _validate_early_start_listeners(config: AbstractConfig, listeners: NodeListeners) -> None:
    known = {listener.name for listener in listeners.all} | set(listeners.controller_names)
    for name in config.get_list("early.start.listeners"):
        if name.upper() not in known:
            raise ConfigError(
                f"early.start.listeners contains listener {name.upper()}, but this is not contained in listeners or controller.listener.names"
            )


def _validate_log_settings(config: AbstractConfig) -> None:
    roll_ms, retention_ms = config.get_optional_int("log.roll.ms"), config.get_optional_int("log.retention.ms")
    _require(roll_ms is None or roll_ms >= 1, "log.roll.ms must be greater than or equal to 1")
    _require(
        retention_ms is None or retention_ms >= 1 or retention_ms == -1,
        "log.retention.ms must be unlimited (-1) or, greater than or equal to 1",
    )
    per_thread = config.get_int("log.cleaner.dedupe.buffer.size") // max(1, config.get_int("log.cleaner.threads"))
    _require(per_thread > 1024 * 1024, "log.cleaner.dedupe.buffer.size must be at least 1MB per cleaner thread.")
    _validate_connection_limits(config)
    wait_ms = config.get_int("replica.fetch.wait.max.ms")
    _require(
        wait_ms <= config.get_int("replica.socket.timeout.ms"),
        "replica.socket.timeout.ms should always be at least replica.fetch.wait.max.ms to prevent unnecessary socket timeouts",
    )
    _require(
        wait_ms <= config.get_int("replica.lag.time.max.ms"),
        "replica.fetch.wait.max.ms should always be less than or equal to replica.lag.time.max.ms to prevent frequent changes in ISR",
    )
    queued = config.get_int("queued.max.request.bytes")
    _require(
        queued <= 0 or queued >= config.get_int("socket.request.max.bytes"),
        "queued.max.request.bytes must be larger or equal to socket.request.max.bytes",
    )


def _validate_connection_limits(config: AbstractConfig) -> None:
    overrides = config.get_string("max.connections.per.ip.overrides") or ""
    _require(
        config.get_int("max.connections.per.ip") > 0 or overrides,
        "max.connections.per.ip can be set to zero only if max.connections.per.ip.overrides property is set.",
    )
    for entry in filter(None, (entry.strip() for entry in overrides.split(","))):
        count = entry.rpartition(":")[2]
        if not is_integer(count):
            raise ConfigError(f'For input string: "{count}"')


def _validate_quorum(quorum: QuorumConfig, node_id: int, *, is_controller: bool) -> None:
    voters = quorum.voters
    if not voters and not quorum.bootstrap_servers:
        raise ConfigError(
            "If using process.roles, either controller.quorum.bootstrap.servers must contain the set of bootstrap controllers or "
            "controller.quorum.voters must contain a parseable set of controllers."
        )
    if not voters:
        return
    listed = ", ".join(str(voter) for voter in sorted(voters))
    if is_controller:
        _require(
            node_id in voters,
            f"If process.roles contains the 'controller' role, the node id {node_id} must be included in the set of voters "
            f"controller.quorum.voters=Set({listed})",
        )
    else:
        _require(
            node_id not in voters,
            f"If process.roles contains just the 'broker' role, the node id {node_id} must not be included in the set of voters "
            f"controller.quorum.voters=Set({listed})",
        )


def _validate_controller_listeners(listeners: NodeListeners, *, is_broker: bool) -> None:
    names = {listener.name for listener in listeners.all}
    _require(
        listeners.controller,
        "controller.listener.names must contain at least one value appearing in the 'listeners' configuration when running the KRaft controller role",
    )
    _require(
        all(name in names for name in listeners.controller_names),
        "controller.listener.names must only contain values appearing in the 'listeners' configuration when running the KRaft controller role",
    )
    if not is_broker:
        _require(
            not listeners.broker,
            "The listeners config must only contain KRaft controller listeners from controller.listener.names when process.roles=controller",
        )


def _validate_broker_only(listeners: NodeListeners) -> None:
    _require(
        listeners.controller_names,
        "controller.listener.names must contain at least one value when running KRaft with just the broker role",
    )
    _require(
        not listeners.controller,
        "controller.listener.names must not contain a value appearing in the 'listeners' configuration when running KRaft with just the broker role",
    )


def _validate_broker_listeners(config: AbstractConfig, listeners: NodeListeners) -> None:
    if config.get_string("inter.broker.listener.name") and "security.inter.broker.protocol" in config.props:
        raise ConfigError("Only one of inter.broker.listener.name and security.inter.broker.protocol should be set.")
    controller_names = listeners.controller_names
    advertised = [listener.name for listener in listeners.advertised if listener.name not in controller_names]
    listening = [listener.name for listener in listeners.all]
    _require(
        advertised, "There must be at least one broker advertised listener. Perhaps all listeners appear in controller.listener.names?"
    )
    _require(
        listeners.inter_broker_name in advertised,
        "inter.broker.listener.name must be a listener name defined in advertised.listeners. The valid options based on currently "
        f"configured listeners are {','.join(advertised)}",
    )
    _require(
        all(name in listening for name in advertised),
        "advertised.listeners listener names must be equal to or a subset of the ones defined in listeners. Found "
        f"{','.join(advertised)}. The valid options based on the current configuration are {','.join(listening)}",
    )
    if listeners.security_protocol_of(listeners.inter_broker_name).startswith("SASL"):
        prefix = f"listener.name.{listeners.inter_broker_name.lower()}."
        enabled = config.props.get(f"{prefix}sasl.enabled.mechanisms") or ",".join(config.get_list("sasl.enabled.mechanisms"))
        _require(
            config.get_string("sasl.mechanism.inter.broker.protocol") in [name.strip() for name in enabled.split(",")],
            "sasl.mechanism.inter.broker.protocol must be included in sasl.enabled.mechanisms when SASL is used for "
            "inter-broker communication",
        )
