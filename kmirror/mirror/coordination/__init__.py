"""The states of mirrored partitions, kept in the internal topic `__mirror_state` (Kafka's
coordinator pattern).

In: ReadMirrorStates and WriteMirrorStates of partitions' leaders, metadata about topics and
mirrors. Out: stored states and last mirror epochs, with the offset of the record that the next
write must follow.

Start with `mirror_coordinator`: which broker coordinates a partition, and what it does with its
shards. `mirror_coordinator_shard` is one partition of the topic: it decides on writes and replays
records (`mirror_records` is their format). `mirror_state_client` is the other side: how a
partition's leader reads and writes states wherever the coordinator is. `state_offset_tag` has the
fields that the two exchange beyond the KIP's.
"""
