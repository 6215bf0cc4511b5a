"""One partition's sequences, as a producer knows them (Kafka's `TxnPartitionEntry`). Pure.

A broker that does not know the producer takes any sequence for the first: of a new topic, of one that
was made anew, or if it has forgotten an idle producer. So this also tells whether the broker knows
the producer for certain.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from kmirror.clients.producer_batch import ProducerBatch, ProducerIdAndEpoch
from kmirror.record.record import NO_SEQUENCE, increment_sequence

NO_ACKED_OFFSET: Final = -1
FORGETS_AFTER_MS: Final = 60_000
"""A partition that was written to within this time knows the producer still. Brokers forget one that
was idle for producer.id.expiration.ms, a day by default.
"""


@dataclass(slots=True)
class PartitionEntry:
    """`in_flight` holds batches that have a sequence and no outcome, in order; some of them may wait in a
    queue for another attempt.

    `life` counts how often the topic was made anew, `known_life` in which life the broker has written
    a batch: from then on it knows the producer. `last_acked_ms` is when it wrote the last one, about.
    """

    producer: ProducerIdAndEpoch
    next_sequence: int = 0
    last_acked_sequence: int = NO_SEQUENCE
    last_acked_offset: int = NO_ACKED_OFFSET
    last_acked_ms: int = 0
    life: int = 0
    known_life: int = 0
    in_flight: list[ProducerBatch] = field(default_factory=list)

    def is_next(self, batch: ProducerBatch) -> bool:
        """Whether the batch follows what was acknowledged last."""
        last = self.last_acked_sequence
        return batch.base_sequence == (0 if last == NO_SEQUENCE else increment_sequence(last, 1))

    def is_known_at(self, now_ms: int) -> bool:
        """Whether the partition's broker knows the producer for certain."""
        is_known = self.last_acked_sequence != NO_SEQUENCE and self.known_life == self.life
        return is_known and now_ms - self.last_acked_ms < FORGETS_AFTER_MS

    def settle(self, batch: ProducerBatch) -> None:
        """The batch has an outcome."""
        if batch in self.in_flight:
            self.in_flight.remove(batch)

    def restart(self, producer: ProducerIdAndEpoch) -> None:
        """Gives all open batches new sequences from 0."""
        sequence = 0
        for batch in self.in_flight:
            batch.reset_producer(producer, sequence)
            sequence = increment_sequence(sequence, batch.record_count)
        self.producer, self.next_sequence = producer, sequence
        self.last_acked_sequence, self.last_acked_offset = NO_SEQUENCE, NO_ACKED_OFFSET
