"""Which error a transactional request gets in which state of its id: Kafka 4.3's order of checks.

A row is a state, a column a request:

    init       InitProducerId of a new instance; `own`, `old`, `id`: of one that says id and epoch
    add        AddPartitionsToTxn 0-3, of version 4 on without verify-only, AddOffsetsToTxn, and
               what a partition leader asks for Produce >= 12 and TxnOffsetCommit >= 5
    verify     AddPartitionsToTxn >= 4 with verify-only: for Produce < 12, TxnOffsetCommit < 5
    v1, v2     EndTxn 0-4 and 5; `c` commits, `a` aborts
    own        with the id and epoch that the row's producer was given last
    old        with the epoch before, of the same id
    id         with another producer id

Words: ok (answered, perhaps written), wait CONCURRENT_TRANSACTIONS, fenced PRODUCER_FENCED,
id INVALID_PRODUCER_ID_MAPPING, state INVALID_TXN_STATE, absent TRANSACTION_ABORTABLE,
- cannot be asked (there is no epoch before 0).

From the decision of an end to its Complete record (Prepare*) Kafka has a pending change. All but
verify-only and EndTxn of version 1 look at it first. `test_differential_transactions` compares
these states with Apache Kafka. It cannot use up the epochs of an id there, so those rows stand
here alone. DescribeTransactions and ListTransactions check nothing but that the id exists.
WriteTxnMarkers asks a partition, not the coordinator (`test_server_write_txn_markers`).
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from support.coordinators.transaction_doubles import TIMEOUT_MS, ShardWorld

from kmirror.common.errors import Errors
from kmirror.common.topic_partition import TopicPartition
from kmirror.coordinator.transaction.transaction_coordinator_shard import TransactionFilter
from kmirror.coordinator.transaction.transaction_log import transaction_record
from kmirror.coordinator.transaction.transaction_metadata import EXHAUSTED_EPOCH, TransactionMetadata
from kmirror.coordinator.transaction.transaction_state import TransactionState

S = TransactionState
A, B = TopicPartition("a", 0), TopicPartition("b", 3)
Producer = tuple[int, int]
OTHER_ID = 500_000


def unknown(_: ShardWorld) -> Producer:
    return 1001, 0


def empty(world: ShardWorld) -> Producer:
    given = world.init()
    return given.producer_id, given.producer_epoch


def bumped(world: ShardWorld) -> Producer:
    given = world.init(expected=empty(world))
    return given.producer_id, given.producer_epoch


def ongoing(version: int) -> Callable[[ShardWorld], Producer]:
    def reach(world: ShardWorld) -> Producer:
        producer = empty(world)
        assert world.add(producer, A, version=version) is Errors.NONE
        return producer

    return reach


def prepared(version: int, *, commit: bool) -> Callable[[ShardWorld], Producer]:
    def reach(world: ShardWorld) -> Producer:
        given = world.end(ongoing(version)(world), commit=commit, version=version)
        assert given.error is Errors.NONE
        return given.producer_id, given.producer_epoch

    return reach


def completed(reach_prepared: Callable[[ShardWorld], Producer]) -> Callable[[ShardWorld], Producer]:
    def reach(world: ShardWorld) -> Producer:
        producer = reach_prepared(world)
        assert world.complete()
        return producer

    return reach


def restarted(reach_prepared: Callable[[ShardWorld], Producer]) -> Callable[[ShardWorld], Producer]:
    def reach(world: ShardWorld) -> Producer:
        producer = reach_prepared(world)
        world.restart()
        return producer

    return reach


def fenced(version: int) -> Callable[[ShardWorld], Producer]:
    """A new instance asked for the id: the producer of the row is the old one."""

    def reach(world: ShardWorld) -> Producer:
        producer = ongoing(version)(world)
        assert world.init().error is Errors.CONCURRENT_TRANSACTIONS
        return producer

    return reach


def timed_out(world: ShardWorld) -> Producer:
    producer = ongoing(2)(world)
    world.clock.now_ms += TIMEOUT_MS + 1
    assert world.abort_timed_out() == 1
    return producer


def exhausted(state: TransactionState) -> Callable[[ShardWorld], Producer]:
    def reach(world: ShardWorld) -> Producer:
        is_ongoing = state is S.ONGOING
        metadata = TransactionMetadata(
            transactional_id="tx",
            producer_id=1001,
            previous_producer_id=1001,
            producer_epoch=EXHAUSTED_EPOCH,
            timeout_ms=TIMEOUT_MS,
            state=state,
            partitions=(A,) if is_ongoing else (),
            start_timestamp_ms=world.now_ms if is_ongoing else -1,
            last_update_timestamp_ms=world.now_ms,
            client_transaction_version=2,
        )
        world.next_producer_id = 1001
        world.log.append(transaction_record(metadata, transaction_version=2))
        world.restart()
        return 1001, EXHAUSTED_EPOCH

    return reach


def rotating(world: ShardWorld) -> Producer:
    """The last epoch was used, the end is decided, the producer was told its next id."""
    given = world.end(exhausted(S.ONGOING)(world), commit=True)
    assert (given.producer_id, given.producer_epoch) == (1002, 0)
    return given.producer_id, given.producer_epoch


def rotated_but_unheard(world: ShardWorld) -> Producer:
    """The id has changed; the producer did not hear of it and asks with the one before."""
    completed(rotating)(world)
    return 1001, EXHAUSTED_EPOCH


STATES: dict[str, Callable[[ShardWorld], Producer]] = {
    "unknown": unknown,
    "empty": empty,
    "bumped": bumped,
    "ongoing-1": ongoing(1),
    "ongoing-2": ongoing(2),
    "prepare-commit-1": prepared(1, commit=True),
    "prepare-commit-2": prepared(2, commit=True),
    "prepare-commit-2-loaded": restarted(prepared(2, commit=True)),
    "prepare-abort-1": prepared(1, commit=False),
    "prepare-abort-2": prepared(2, commit=False),
    "complete-commit-1": completed(prepared(1, commit=True)),
    "complete-commit-2": completed(prepared(2, commit=True)),
    "complete-abort-1": completed(prepared(1, commit=False)),
    "complete-abort-2": completed(prepared(2, commit=False)),
    "fenced-prepare-1": fenced(1),
    "fenced-prepare-2": fenced(2),
    "fenced-complete-1": completed(fenced(1)),
    "fenced-complete-2": completed(fenced(2)),
    "timed-out-prepare": timed_out,
    "timed-out-complete": completed(timed_out),
    "exhausted-empty": exhausted(S.EMPTY),
    "exhausted-ongoing": exhausted(S.ONGOING),
    "rotating": rotating,
    "rotated": completed(rotating),
    "rotated-but-unheard": rotated_but_unheard,
}

BEGINNINGS = """
state                   init init-own init-old init-id add    add-old add-id verify verify-old verify-id
unknown                 ok   ok       ok       ok      id     id      id     id     id         id
empty                   ok   ok       -        fenced  ok     fenced  id     absent fenced     id
bumped                  ok   ok       ok       fenced  ok     fenced  id     absent fenced     id
ongoing-1               wait wait     wait     fenced  ok     fenced  id     ok     fenced     id
ongoing-2               wait wait     wait     fenced  ok     fenced  id     ok     fenced     id
prepare-commit-1        wait wait     wait     wait    wait   wait    wait   wait   fenced     id
prepare-commit-2        wait wait     wait     wait    wait   wait    wait   wait   fenced     id
prepare-commit-2-loaded wait wait     wait     wait    wait   wait    wait   wait   fenced     id
prepare-abort-1         wait wait     wait     wait    wait   wait    wait   wait   fenced     id
prepare-abort-2         wait wait     wait     wait    wait   wait    wait   wait   fenced     id
complete-commit-1       ok   ok       -        fenced  ok     fenced  id     absent fenced     id
complete-commit-2       ok   ok       ok       fenced  ok     fenced  id     absent fenced     id
complete-abort-1        ok   ok       -        fenced  ok     fenced  id     absent fenced     id
complete-abort-2        ok   ok       ok       fenced  ok     fenced  id     absent fenced     id
fenced-prepare-1        wait wait     wait     wait    wait   wait    wait   fenced fenced     id
fenced-prepare-2        wait wait     wait     wait    wait   wait    wait   fenced fenced     id
fenced-complete-1       ok   ok       fenced   fenced  fenced fenced  id     fenced fenced     id
fenced-complete-2       ok   ok       fenced   fenced  fenced fenced  id     fenced fenced     id
timed-out-prepare       wait wait     wait     wait    wait   wait    wait   fenced fenced     id
timed-out-complete      ok   ok       fenced   fenced  fenced fenced  id     fenced fenced     id
exhausted-empty         ok   ok       fenced   fenced  ok     fenced  id     absent fenced     id
exhausted-ongoing       wait wait     wait     fenced  ok     fenced  id     ok     fenced     id
rotating                wait wait     wait     wait    wait   wait    wait   id     id         id
rotated                 ok   ok       -        fenced  ok     fenced  id     absent fenced     id
rotated-but-unheard     ok   ok       fenced   fenced  id     id      id     id     id         id
"""
ENDS = """
state                   v1c-own v1a-own v1c-old v1a-id v2c-own v2a-own v2c-old v2a-old v2c-id
unknown                 id      id      id      id     id      id      id      id      id
empty                   state   state   fenced  id     state   ok      fenced  fenced  id
bumped                  state   state   fenced  id     state   ok      fenced  fenced  id
ongoing-1               ok      ok      fenced  id     ok      ok      fenced  fenced  id
ongoing-2               ok      ok      fenced  id     ok      ok      fenced  fenced  id
prepare-commit-1        wait    wait    fenced  id     wait    wait    wait    wait    wait
prepare-commit-2        wait    wait    fenced  id     wait    wait    wait    wait    wait
prepare-commit-2-loaded wait    wait    fenced  id     wait    wait    wait    wait    wait
prepare-abort-1         wait    wait    fenced  id     wait    wait    wait    wait    wait
prepare-abort-2         wait    wait    fenced  id     wait    wait    wait    wait    wait
complete-commit-1       ok      state   fenced  id     state   ok      ok      state   id
complete-commit-2       ok      state   fenced  id     state   ok      ok      state   id
complete-abort-1        state   ok      fenced  id     state   ok      state   ok      id
complete-abort-2        state   ok      fenced  id     state   ok      state   ok      id
fenced-prepare-1        fenced  fenced  fenced  id     wait    wait    wait    wait    wait
fenced-prepare-2        fenced  fenced  fenced  id     wait    wait    wait    wait    wait
fenced-complete-1       fenced  fenced  fenced  id     state   ok      fenced  fenced  id
fenced-complete-2       fenced  fenced  fenced  id     state   ok      fenced  fenced  id
timed-out-prepare       fenced  fenced  fenced  id     wait    wait    wait    wait    wait
timed-out-complete      fenced  fenced  fenced  id     state   ok      fenced  fenced  id
exhausted-empty         state   state   fenced  id     state   ok      fenced  fenced  id
exhausted-ongoing       ok      ok      fenced  id     ok      ok      fenced  fenced  id
rotating                id      id      id      id     wait    wait    wait    wait    wait
rotated                 ok      state   fenced  id     state   ok      -       -       id
rotated-but-unheard     id      id      id      id     ok      state   id      id      id
"""
WORDS = {
    "ok": Errors.NONE,
    "wait": Errors.CONCURRENT_TRANSACTIONS,
    "fenced": Errors.PRODUCER_FENCED,
    "id": Errors.INVALID_PRODUCER_ID_MAPPING,
    "state": Errors.INVALID_TXN_STATE,
    "absent": Errors.TRANSACTION_ABORTABLE,
}


def cells(table: str) -> dict[tuple[str, str], str]:
    """(state, request) -> word."""
    head, *rows = (line.split() for line in table.strip().splitlines())
    assert all(len(row) == len(head) for row in rows)
    words = {(row[0], head[at]): row[at] for row in rows for at in range(1, len(head))}
    return {cell: word for cell, word in words.items() if word != "-"}


CELLS = cells(BEGINNINGS) | cells(ENDS)


def ask(world: ShardWorld, request: str, producer: Producer) -> object:
    """The error that `request` gets; `producer` is whom the row is about."""
    what, _, who = request.partition("-")
    asks_as = {"": producer, "own": producer, "old": (producer[0], producer[1] - 1), "id": (OTHER_ID, producer[1])}[who]
    if what == "init":
        return world.init(expected=asks_as if who else None).error
    if what == "add":
        return world.add(asks_as, B)
    if what == "verify":
        return world.shard.verify_partitions("tx", *asks_as, [A])[A]
    return world.end(asks_as, commit=what[2] == "c", version=int(what[1])).error


def test_every_state_has_a_row() -> None:
    assert {state for state, _ in CELLS} == set(STATES)


@pytest.mark.parametrize(("state", "request_name"), CELLS)
def test_the_checks_come_in_kafkas_order(state: str, request_name: str) -> None:
    world = ShardWorld()
    producer = STATES[state](world)
    assert ask(world, request_name, producer) is WORDS[CELLS[state, request_name]]


@pytest.mark.parametrize("state", STATES)
def test_a_refused_request_writes_nothing(state: str) -> None:
    for (of, request_name), word in CELLS.items():
        if of == state and word not in ("ok", "wait"):
            world = ShardWorld()
            producer = STATES[state](world)
            written = len(world.log)
            ask(world, request_name, producer)
            assert len(world.log) == written, request_name


@pytest.mark.parametrize("state", STATES)
def test_describe_and_list_see_an_id_in_every_state_but_unknown(state: str) -> None:
    world = ShardWorld()
    STATES[state](world)
    found = world.shard.transaction("tx")
    assert (found is None) is (state == "unknown")
    assert world.shard.list_transactions(TransactionFilter(), world.now_ms) == ([] if found is None else [found])


def test_a_producer_that_ended_its_next_transaction_at_once_was_fenced() -> None:
    """Version 2: commit answered, markers under way, and the next transaction is aborted with the
    epoch that the answer gave.
    """
    world = ShardWorld()
    producer = prepared(2, commit=True)(world)
    assert world.end(producer, commit=False).error is Errors.CONCURRENT_TRANSACTIONS
    assert world.complete()
    ended = world.end(producer, commit=False)
    assert (ended.error, ended.producer_epoch) == (Errors.NONE, producer[1] + 1)
