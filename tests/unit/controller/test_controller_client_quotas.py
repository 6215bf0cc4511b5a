"""AlterClientQuotas: what is refused and how, and what is recorded; the quota on controller
mutations where topics change.
"""

from __future__ import annotations

import pytest
from support.brokers.metadata_doubles import ControllerDouble

from kmirror.common.errors import ApiException, Errors
from kmirror.controller.client_quota_control_manager import ClientQuotaControlManager
from kmirror.metadata.image import ClientQuotaEntity
from kmirror.wire.messages import alter_client_quotas as acq
from kmirror.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from kmirror.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kmirror.wire.messages.delete_topics import DeleteTopicsRequest

Pairs = tuple[tuple[str, str | None], ...]


def entry(entity: Pairs, **values: float | None) -> acq.AlterClientQuotasRequestEntryData:
    return acq.AlterClientQuotasRequestEntryData(
        entity=[acq.AlterClientQuotasRequestEntityData(entity_type=kind, entity_name=name) for kind, name in entity],
        ops=[acq.OpData(key=key, value=value or 0.0, remove=value is None) for key, value in values.items()],
    )


@pytest.fixture
def controller() -> ControllerDouble:
    return ControllerDouble()


def alter(controller: ControllerDouble, *entries: acq.AlterClientQuotasRequestEntryData, validate_only: bool = False):
    request = acq.AlterClientQuotasRequest(entries=list(entries), validate_only=validate_only)
    response = controller.run(ClientQuotaControlManager(controller.state).alter_client_quotas(request))
    return [(Errors(result.error_code), result.error_message) for result in response.entries]


USER, DEFAULT_USER, PAIR = (("user", "alice"),), (("user", None),), (("user", "alice"), ("client-id", None))


@pytest.mark.parametrize(
    ("entity", "values", "message"),
    [
        ((), {"producer_byte_rate": 1.0}, "Invalid empty client quota entity"),
        ((("group", "g"),), {"producer_byte_rate": 1.0}, "Unhandled client quota entity type: group"),
        ((("user", ""),), {"producer_byte_rate": 1.0}, "Empty user not supported"),
        (
            (("ip", "1.2.3.4"), ("user", "a")),
            {"connection_creation_rate": 1.0},
            "Invalid quota entity combination, IP entity shouldnot be combined with User or ClientId",
        ),
        ((("ip", "1.2.3.999"),), {"connection_creation_rate": 1.0}, "1.2.3.999 is not a valid IP or resolvable host."),
        ((("ip", None),), {"producer_byte_rate": 1.0}, "Invalid configuration key producer_byte_rate"),
        (USER, {"connection_creation_rate": 1.0}, "Invalid configuration key connection_creation_rate"),
        (USER, {"producer_byte_rate": -1.0}, "Quota producer_byte_rate must be greater than 0"),
        (USER, {"producer_byte_rate": 1.5}, "producer_byte_rate cannot be a fractional value."),
        (USER, {"consumer_byte_rate": 1e20}, "Proposed value for consumer_byte_rate is too large for a LONG."),
        ((("ip", None),), {"connection_creation_rate": 3e9}, "Proposed value for connection_creation_rate is too large for an INT."),
    ],
)
def test_refused_with_kafkas_text(controller: ControllerDouble, entity: Pairs, values: dict[str, float], message: str) -> None:
    assert alter(controller, entry(entity, **values)) == [(Errors.INVALID_REQUEST, message)]
    assert controller.state.image.client_quotas == {}


def test_set_change_and_remove(controller: ControllerDouble) -> None:
    assert alter(controller, entry(USER, producer_byte_rate=10.0, request_percentage=1.5), entry(PAIR, consumer_byte_rate=7.0)) == [
        (Errors.NONE, None),
        (Errors.NONE, None),
    ]
    quotas = controller.state.image.client_quotas
    assert quotas[ClientQuotaEntity(USER)] == {"producer_byte_rate": 10.0, "request_percentage": 1.5}
    assert quotas[ClientQuotaEntity((("client-id", None), ("user", "alice")))] == {"consumer_byte_rate": 7.0}
    alter(controller, entry(USER, producer_byte_rate=10.0, consumer_byte_rate=None, request_percentage=None))
    assert [(record.key, record.remove) for record in controller.records] == [("request_percentage", True)], "only what changes"
    alter(controller, entry(USER, producer_byte_rate=None))
    assert ClientQuotaEntity(USER) not in controller.state.image.client_quotas


def test_one_bad_entity_does_not_disturb_the_others(controller: ControllerDouble) -> None:
    results = alter(controller, entry(USER, nonsense=1.0), entry(DEFAULT_USER, controller_mutation_rate=0.5))
    assert [error for error, _ in results] == [Errors.INVALID_REQUEST, Errors.NONE]
    assert controller.state.image.client_quotas == {ClientQuotaEntity(DEFAULT_USER): {"controller_mutation_rate": 0.5}}


def test_an_entity_named_twice_and_validate_only(controller: ControllerDouble) -> None:
    results = alter(controller, entry(PAIR, producer_byte_rate=1.0), entry(PAIR, producer_byte_rate=2.0))
    text = "Ignoring duplicate entity ClientQuotaEntity(entries={client-id=null, user=alice})"
    assert results == [(Errors.INVALID_REQUEST, text)]
    before = controller.state.image.client_quotas
    assert alter(controller, entry(USER, producer_byte_rate=9.0), validate_only=True) == [(Errors.NONE, None)]
    assert controller.state.image.client_quotas == before


class Permits:
    """A quota of so many permits."""

    throttle_time_ms = 0

    def __init__(self, left: int) -> None:
        self.left = left

    def record(self, permits: int) -> None:
        if self.left <= 0:
            raise ApiException(Errors.THROTTLING_QUOTA_EXCEEDED, Errors.THROTTLING_QUOTA_EXCEEDED.message)
        self.left -= permits


def test_mutations_take_a_permit_for_each_partition(controller: ControllerDouble) -> None:
    controller.start_brokers(1)
    quota = Permits(4)
    topics = [CreatableTopic(name=name, num_partitions=3, replication_factor=1) for name in ("a", "b", "c")]
    response = controller.run(controller.replication.create_topics(CreateTopicsRequest(topics=topics), quota=quota))
    assert [result.error_code for result in response.topics] == [Errors.NONE, Errors.NONE, Errors.THROTTLING_QUOTA_EXCEEDED]
    assert set(controller.state.image.topics.by_name) == {"a", "b"}, "a strict quota refuses nothing because it is large"
    quota.left = 1
    more = CreatePartitionsRequest(topics=[CreatePartitionsTopic(name=n, count=c, assignments=None) for n, c in (("a", 5), ("b", 4))])
    results = controller.run(controller.replication.create_partitions(more, quota=quota)).results
    assert [result.error_code for result in results] == [Errors.NONE, Errors.THROTTLING_QUOTA_EXCEEDED]
    quota.left = 1
    deleted = controller.run(controller.replication.delete_topics(DeleteTopicsRequest(topic_names=["a", "b"]), quota=quota)).responses
    assert [result.error_code for result in deleted] == [Errors.NONE, Errors.THROTTLING_QUOTA_EXCEEDED]
    assert set(controller.state.image.topics.by_name) == {"b"}
