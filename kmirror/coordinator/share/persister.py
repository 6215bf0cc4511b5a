"""How the group coordinator reaches the state of share partitions, on whichever broker it is
(Kafka's `DefaultStatePersister`).

Each round asks every coordinator once, about all of its share partitions; this broker's own is
asked without a network request. Partitions without an answer (their coordinator moves or loads, or
its topic is being created) are asked for again after a pause; after 15 seconds the last error is
the answer. There is no retry for a partition that the metadata does not know.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple

from kmirror.common.errors import ApiException, Errors
from kmirror.common.topic_partition import SHARE_GROUP_STATE_TOPIC_NAME, partition_for
from kmirror.common.uuid import Uuid
from kmirror.coordinator.share.share_coordinator import ShareCoordinator
from kmirror.coordinator.share.share_partition_key import SharePartitionKey
from kmirror.metadata.image import MetadataImage
from kmirror.network.client import DisconnectError, RequestTimeoutError, UnsupportedVersionError
from kmirror.network.node_channels import BrokerChannel
from kmirror.runtime.api import Runtime, run_together
from kmirror.wire.messages import delete_share_group_state, initialize_share_group_state, read_share_group_state_summary
from kmirror.wire.messages.read_share_group_state_summary import PartitionResult as StateSummary
from kmirror.wire.primitives import ProtocolReadError

TIMEOUT_MS: Final = 15_000
BACKOFF_MS: Final = 100
BACKOFF_MAX_MS: Final = 2_000
_RETRIABLE: Final = (
    Errors.COORDINATOR_NOT_AVAILABLE,
    Errors.COORDINATOR_LOAD_IN_PROGRESS,
    Errors.NOT_COORDINATOR,
    Errors.UNKNOWN_TOPIC_OR_PARTITION,
    Errors.NETWORK_EXCEPTION,
    Errors.REQUEST_TIMED_OUT,
)
_EXHAUSTED: Final = "Exhausted max retries to complete {} RPC without success."
_COORDINATOR_NOT_FOUND: Final = "Error in find coordinator. Exhausted max retries to find coordinator without success."


class PartitionError(NamedTuple):
    """The error of one share partition, with its text."""

    error: Errors
    message: str


class InitialState(NamedTuple):
    """The start offset of a group in a share partition; -1 if it is not known yet."""

    state_epoch: int
    start_offset: int


Partitions = Mapping[Uuid, Iterable[int]]
PartitionErrors = dict[Uuid, dict[int, PartitionError]]
_Request = Callable[[list[SharePartitionKey]], Any]


class Persister:
    """`create_topic` requests the creation of `__share_group_state`; it may be called again while
    that is under way."""

    def __init__(
        self,
        runtime: Runtime,
        coordinator: ShareCoordinator,
        *,
        image: Callable[[], MetadataImage],
        brokers: BrokerChannel,
        broker_id: int,
        create_topic: Callable[[], None],
    ) -> None:
        self._runtime = runtime
        self._coordinator = coordinator
        self._image = image
        self._brokers = brokers
        self._broker_id = broker_id
        self._create_topic = create_topic

    async def initialize_state(self, group_id: str, states: Mapping[Uuid, Mapping[int, InitialState]]) -> PartitionErrors:
        """Creates the states; returns the errors of those that could not be created."""
        module = initialize_share_group_state

        def request(keys: list[SharePartitionKey]) -> Any:
            topics: dict[Uuid, module.InitializeStateData] = {}
            for _, topic_id, partition in keys:
                topic = topics.setdefault(topic_id, module.InitializeStateData(topic_id=topic_id))
                topic.partitions.append(module.PartitionData(partition, *states[topic_id][partition]))
            return module.InitializeShareGroupStateRequest(group_id=group_id, topics=list(topics.values()))

        answers = await self._ask(_keys(group_id, states), request, "initialize state")
        return _errors(answers)

    async def delete_state(self, group_id: str, partitions: Partitions) -> PartitionErrors:
        """Deletes the states; returns the errors of those that could not be deleted."""
        module = delete_share_group_state

        def request(keys: list[SharePartitionKey]) -> Any:
            topics: dict[Uuid, module.DeleteStateData] = {}
            for _, topic_id, partition in keys:
                topic = topics.setdefault(topic_id, module.DeleteStateData(topic_id=topic_id))
                topic.partitions.append(module.PartitionData(partition))
            return module.DeleteShareGroupStateRequest(group_id=group_id, topics=list(topics.values()))

        return _errors(await self._ask(_keys(group_id, partitions), request, "delete state"))

    async def read_summary(self, group_id: str, partitions: Partitions) -> dict[Uuid, dict[int, StateSummary | PartitionError]]:
        """Returns start offset and epochs of each share partition."""
        module = read_share_group_state_summary

        def request(keys: list[SharePartitionKey]) -> Any:
            topics: dict[Uuid, module.ReadStateSummaryData] = {}
            for _, topic_id, partition in keys:
                topic = topics.setdefault(topic_id, module.ReadStateSummaryData(topic_id=topic_id))
                topic.partitions.append(module.PartitionData(partition, leader_epoch=-1))
            return module.ReadShareGroupStateSummaryRequest(group_id=group_id, topics=list(topics.values()))

        summaries: dict[Uuid, dict[int, StateSummary | PartitionError]] = {}
        for key, answer in (await self._ask(_keys(group_id, partitions), request, "read state summary")).items():
            summaries.setdefault(key.topic_id, {})[key.partition] = answer
        return summaries

    async def _ask(self, keys: list[SharePartitionKey], request: _Request, name: str) -> dict[SharePartitionKey, Any]:
        """Returns the coordinators' entry for each share partition, or its `PartitionError`, in the
        order of `keys`."""
        answers: dict[SharePartitionKey, Any] = {}
        remaining = keys
        deadline_ms = self._runtime.clock.monotonic_ms() + TIMEOUT_MS
        backoff_ms = BACKOFF_MS
        while True:
            answers |= await self._ask_once(remaining, request, name)
            remaining = [key for key in remaining if self._is_worth_a_retry(key, answers[key])]
            if not remaining:
                break
            if self._runtime.clock.monotonic_ms() + backoff_ms > deadline_ms:
                exhausted = f"Error in {name} RPC. {_EXHAUSTED.format(name)}"
                for key in remaining:
                    lost = answers[key].message == _COORDINATOR_NOT_FOUND
                    answers[key] = answers[key] if lost else PartitionError(answers[key].error, exhausted)
                break
            await self._runtime.sleep_ms(backoff_ms)
            backoff_ms = min(2 * backoff_ms, BACKOFF_MAX_MS)
        return {key: answers[key] for key in keys}

    def _is_worth_a_retry(self, key: SharePartitionKey, answer: Any) -> bool:
        if not isinstance(answer, PartitionError) or answer.error not in _RETRIABLE:
            return False
        if answer.error is not Errors.UNKNOWN_TOPIC_OR_PARTITION:
            return True
        topic = self._image().topics.topic_by_id(key.topic_id)
        return topic is not None and key.partition in topic.partitions

    async def _ask_once(self, keys: list[SharePartitionKey], request: _Request, name: str) -> dict[SharePartitionKey, Any]:
        by_broker: dict[int, list[SharePartitionKey]] = {}
        answers: dict[SharePartitionKey, Any] = {}
        for key in keys:
            leader = self._coordinator_of(key)
            if leader is None:
                answers[key] = PartitionError(Errors.COORDINATOR_NOT_AVAILABLE, _COORDINATOR_NOT_FOUND)
            else:
                by_broker.setdefault(leader, []).append(key)
        if by_broker:
            asked = [self._ask_broker(broker_id, group, request(group), name) for broker_id, group in by_broker.items()]
            for found in await run_together(self._runtime, "persister", asked):
                answers |= found
        return answers

    def _coordinator_of(self, key: SharePartitionKey) -> int | None:
        topic = self._image().topics.topic(SHARE_GROUP_STATE_TOPIC_NAME)
        if topic is None:
            self._create_topic()
            return None
        registration = topic.partitions.get(partition_for(str(key), len(topic.partitions)))
        return registration.leader if registration is not None and registration.has_leader else None

    async def _ask_broker(self, broker_id: int, keys: list[SharePartitionKey], request: Any, name: str) -> dict[SharePartitionKey, Any]:
        try:
            response = await (self._ask_here(request) if broker_id == self._broker_id else self._brokers.send(broker_id, request))
        except DisconnectError:
            return dict.fromkeys(keys, _failed(name, Errors.NETWORK_EXCEPTION))
        except RequestTimeoutError:
            return dict.fromkeys(keys, _failed(name, Errors.REQUEST_TIMED_OUT))
        except (UnsupportedVersionError, ProtocolReadError):
            return dict.fromkeys(keys, _failed(name, Errors.UNSUPPORTED_VERSION))
        except ApiException as error:
            return dict.fromkeys(keys, _failed(name, error.error))
        results = {(result.topic_id, entry.partition): entry for result in response.results for entry in result.partitions}
        return {key: _answer(results.get((key.topic_id, key.partition)), name) for key in keys}

    async def _ask_here(self, request: Any) -> Any:
        if isinstance(request, initialize_share_group_state.InitializeShareGroupStateRequest):
            return await self._coordinator.initialize_state(request)
        if isinstance(request, delete_share_group_state.DeleteShareGroupStateRequest):
            return await self._coordinator.delete_state(request)
        return await self._coordinator.read_state_summary(request)


def _keys(group_id: str, partitions: Partitions) -> list[SharePartitionKey]:
    return [SharePartitionKey(group_id, topic_id, partition) for topic_id, numbers in partitions.items() for partition in numbers]


def _answer(entry: Any, name: str) -> Any:
    if entry is None:
        return _failed(name, Errors.UNKNOWN_SERVER_ERROR)
    if not entry.error_code:
        return entry
    error = Errors.for_code(entry.error_code)
    return PartitionError(error, f"Error in {name} RPC. {entry.error_message or error.message}")


def _failed(name: str, error: Errors) -> PartitionError:
    return PartitionError(error, f"Error in {name} RPC. {error.message}")


def _errors(answers: dict[SharePartitionKey, Any]) -> PartitionErrors:
    errors: PartitionErrors = {}
    for key, answer in answers.items():
        if isinstance(answer, PartitionError):
            errors.setdefault(key.topic_id, {})[key.partition] = answer
    return errors
