"""BrokerLifecycleManager: how long it waits before it asks a controller again that refuses it."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from support.brokers.network_doubles import SimBench

from kmirror.common.errors import ApiException, Errors
from kmirror.server.broker_lifecycle_manager import FIRST_RETRY_MS, MAX_RETRY_MS, RETRY_JITTER, BrokerIdentity, BrokerLifecycleManager
from kmirror.wire.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from kmirror.wire.messages.broker_registration import BrokerRegistrationRequest, BrokerRegistrationResponse
from kmirror.wire.primitives import ProtocolReadError

HEARTBEAT_MS = 5_000


class ScriptedController:
    """A channel: it refuses registrations and heartbeats while told so, and notes when each came
    (ms).
    """

    def __init__(self, clock: Any) -> None:
        self.registration_error = self.heartbeat_error = Errors.NONE
        self.problem: str | None = None
        self.unreachable = False
        self.asked_ms: list[int] = []
        self._clock = clock

    async def send(self, message: Any) -> Any:
        self.asked_ms.append(self._clock.monotonic_ms())
        if self.unreachable:
            raise ApiException(Errors.REQUEST_TIMED_OUT)
        if isinstance(message, BrokerRegistrationRequest):
            return BrokerRegistrationResponse(error_code=self.registration_error, broker_epoch=7)
        assert isinstance(message, BrokerHeartbeatRequest)
        return BrokerHeartbeatResponse(error_code=self.heartbeat_error, is_fenced=False)

    def pauses_ms(self) -> list[int]:
        return [later - earlier for earlier, later in pairwise(self.asked_ms)]


class Bench(SimBench):
    def __init__(self, **options: Any) -> None:
        super().__init__(5)
        runtime = self.world.node("broker").boot()
        self.controller = ScriptedController(runtime.clock)
        identity = BrokerIdentity(1, "cluster", None, (), {}, (), -1)
        manager = self.manager = BrokerLifecycleManager(
            runtime,
            self.controller,  # type: ignore[arg-type]
            identity,
            heartbeat_interval_ms=HEARTBEAT_MS,
            metadata_offset=lambda: 0,
            offline_log_dirs=list,
            **options,
        )
        runtime.spawn(manager.run(), name="lifecycle")


@pytest.fixture
def bench():
    bench = Bench()
    yield bench
    bench.world.close()


def ensure_backoff(pauses_ms: list[int]) -> None:
    """50, 100, 200, 400, 400, ... ms, each a little off, and not always by the same."""
    wanted = [min(MAX_RETRY_MS, FIRST_RETRY_MS << index) for index in range(len(pauses_ms))]
    for pause_ms, wanted_ms in zip(pauses_ms, wanted, strict=True):
        assert abs(pause_ms - wanted_ms) <= RETRY_JITTER * wanted_ms + 1, pauses_ms
    assert len(set(pauses_ms[3:])) > 1, "no jitter"


def test_a_refused_registration_is_tried_less_and_less_often_and_again_soon_enough(bench):
    bench.controller.registration_error = Errors.DUPLICATE_BROKER_REGISTRATION
    bench.run_ms(9_000)
    ensure_backoff(bench.controller.pauses_ms())
    assert len(bench.controller.asked_ms) in range(20, 28), "every 50 ms there would be 180"
    bench.controller.registration_error = Errors.NONE
    bench.run_ms(MAX_RETRY_MS + 50)
    assert bench.manager.registered.done()
    assert bench.manager.broker_epoch == 7


@pytest.mark.parametrize("unreachable", [True, False])
def test_heartbeats_that_fail_back_off_and_begin_anew_after_one_that_does_not(bench, unreachable):
    controller = bench.controller
    bench.manager.set_ready_to_unfence()
    bench.run_ms(100)
    assert bench.manager.unfenced.done()
    for _ in range(2):
        controller.asked_ms.clear()
        controller.unreachable, controller.heartbeat_error = unreachable, Errors.UNKNOWN_SERVER_ERROR
        bench.run_ms(HEARTBEAT_MS + 4_000)
        ensure_backoff(controller.pauses_ms())
        controller.unreachable, controller.heartbeat_error = False, Errors.NONE
        bench.run_ms(MAX_RETRY_MS + 50)


def test_refused_registrations_do_not_count_against_heartbeats(bench):
    bench.controller.registration_error = Errors.DUPLICATE_BROKER_REGISTRATION
    bench.run_ms(5_000)
    bench.controller.registration_error, bench.controller.heartbeat_error = Errors.NONE, Errors.UNKNOWN_SERVER_ERROR
    bench.controller.asked_ms.clear()
    bench.run_ms(3_000)
    registered_ms, *heartbeats_ms = bench.controller.asked_ms
    assert bench.manager.registered.done()
    assert heartbeats_ms[1] - heartbeats_ms[0] < 2 * FIRST_RETRY_MS
    assert heartbeats_ms[0] - registered_ms < FIRST_RETRY_MS


@pytest.mark.parametrize("failure", [ProtocolReadError("no answer that can be read"), KeyError("mistake")], ids=repr)
def test_a_broker_whose_heartbeat_failed_in_an_odd_way_sent_no_more_of_them(bench, failure):
    controller, send = bench.controller, bench.controller.send
    bench.manager.set_ready_to_unfence()
    bench.run_ms(100)

    async def fail_once(message: Any) -> Any:
        controller.send = send
        raise failure

    controller.send = fail_once
    bench.run_ms(HEARTBEAT_MS)
    controller.asked_ms.clear()
    bench.run_ms(2 * HEARTBEAT_MS + 1_000)
    assert len(controller.asked_ms) >= 2
    told = [each.message for each in bench.world.loop.failures]
    assert told == (
        [] if isinstance(failure, ProtocolReadError) else ["task broker-lifecycle ended unexpectedly and begins again in 100 ms"]
    )


@pytest.mark.parametrize(
    ("error", "problem", "text"),
    [
        (Errors.CLUSTER_AUTHORIZATION_FAILED, None, "super.users of the controller has to name it"),
        (Errors.DUPLICATE_BROKER_REGISTRATION, None, "its session has to end"),
        (None, "the controller at h:1 does not answer: cannot connect", "the controller at h:1 does not answer"),
    ],
    ids=str,
)
def test_a_broker_that_could_not_register_waited_for_ever_without_a_word(caplog, error, problem, text):
    bench = Bench(registration_timeout_ms=20_000)
    controller = bench.controller
    controller.registration_error, controller.unreachable, controller.problem = error or Errors.NONE, error is None, problem
    bench.run_ms(19_000)
    assert not bench.manager.registered.done()
    warnings = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert len(warnings) == 1 and "Unable to register broker 1" in warnings[0]
    bench.run_ms(2_000)
    refusal = str(bench.manager.registered.exception())
    assert "unable to register with the controller quorum within 20000 ms (initial.broker.registration.timeout.ms)" in refusal
    assert text in refusal or "Unable to register broker 1" in refusal
    assert error is None or text in refusal
    bench.world.close()


def test_a_registration_that_was_late_is_no_failure(caplog):
    caplog.set_level("INFO")
    bench = Bench(registration_timeout_ms=20_000)
    bench.controller.registration_error = Errors.DUPLICATE_BROKER_REGISTRATION
    bench.run_ms(9_000)
    bench.controller.registration_error = Errors.NONE
    bench.run_ms(30_000)
    assert bench.manager.registered.exception() is None
    assert [record.getMessage() for record in caplog.records if "over after" in record.getMessage()]
    bench.world.close()


def test_failing_heartbeats_were_silent_when_the_controller_was_away(caplog):
    bench = Bench()
    bench.manager.set_ready_to_unfence()
    bench.run_ms(100)
    bench.controller.unreachable = True
    bench.run_ms(60_000)
    warnings = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert len(warnings) == 1 and warnings[0].startswith("The heartbeats of broker 1 fail: REQUEST_TIMED_OUT")
    bench.world.close()
