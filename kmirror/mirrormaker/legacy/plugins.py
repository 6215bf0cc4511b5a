"""Handlers and rebalance listeners of users, named as `module:attribute`.

The attribute is a class, or a function that returns the object. It is called with the text of the
option for arguments if that option is given, as Kafka calls a constructor, and without arguments
otherwise. A class with a method `init` gets the text there instead (KIP-3).

Modules are found as Python finds them (PYTHONPATH), and last in the current folder.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Sequence
from typing import Any

from kmirror.clients.consumer.consumer_types import ConsumerRebalanceListener
from kmirror.common.errors import ConfigError, KmirrorError
from kmirror.common.topic_partition import TopicPartition
from kmirror.mirrormaker.legacy.message_handler import MirrorMakerMessageHandler
from kmirror.mirrormaker.legacy.user_code import UserCodeError, called

LISTENER_METHODS = ("on_partitions_assigned", "on_partitions_revoked")


class RebalanceListenerError(KmirrorError):
    """A user's rebalance listener raised."""

    def __init__(self, method: str, partitions: Sequence[TopicPartition], reason: KmirrorError) -> None:
        named = ", ".join(str(partition) for partition in partitions)
        super().__init__(f"User rebalance callback throws an error: {method}([{named}]): {reason}")


def load_message_handler(name: str, arguments: str | None) -> MirrorMakerMessageHandler:
    """ConfigError, in one line, if there is no such handler or it cannot be made."""
    made = _made(name, arguments, "message.handler")
    if not callable(getattr(made, "handle", None)):
        raise ConfigError(f"--message.handler {name}: a message handler has a method handle(record)")
    handler: MirrorMakerMessageHandler = made
    return handler


def load_rebalance_listener(name: str, arguments: str | None) -> ConsumerRebalanceListener:
    """As `load_message_handler`. Methods may be plain functions; those that lack do nothing."""
    made = _made(name, arguments, "consumer.rebalance.listener")
    if not any(callable(getattr(made, one, None)) for one in LISTENER_METHODS):
        raise ConfigError(f"--consumer.rebalance.listener {name}: a rebalance listener has {' and '.join(LISTENER_METHODS)}")
    return _UsersListener(made)


class _UsersListener(ConsumerRebalanceListener):
    """A listener whose methods need not be coroutines, and may raise whatever they like."""

    def __init__(self, listener: Any) -> None:
        self._listener = listener

    async def on_partitions_revoked(self, partitions: Sequence[TopicPartition]) -> None:
        await self._call("on_partitions_revoked", partitions)

    async def on_partitions_assigned(self, partitions: Sequence[TopicPartition]) -> None:
        await self._call("on_partitions_assigned", partitions)

    async def _call(self, method: str, partitions: Sequence[TopicPartition]) -> None:
        function = getattr(self._listener, method, None)
        if function is not None:
            try:
                await called(function, partitions)
            except UserCodeError as error:
                raise RebalanceListenerError(method, partitions, error) from error


def _made(name: str, arguments: str | None, option: str) -> Any:
    attribute = _attribute(name, option)
    try:
        if arguments is None:
            return attribute()
        if callable(getattr(attribute, "init", None)):
            made = attribute()
            made.init(arguments)
            return made
        return attribute(arguments)
    except (Exception, SystemExit) as error:
        raise ConfigError(f"--{option} {name} cannot be made: {type(error).__name__}: {error}") from error


def _attribute(name: str, option: str) -> Any:
    module_name, colon, attribute_name = name.partition(":")
    if not colon or not module_name or not attribute_name:
        raise ConfigError(f"--{option} {name} is not of the form module:attribute")
    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())
    try:
        module = importlib.import_module(module_name)
    except (Exception, SystemExit) as error:
        raise ConfigError(f"--{option} {name}: the module cannot be loaded: {type(error).__name__}: {error}") from error
    made = getattr(module, attribute_name, None)
    if not callable(made):
        raise ConfigError(f"--{option} {name}: module {module_name} has no class or function {attribute_name}")
    return made
