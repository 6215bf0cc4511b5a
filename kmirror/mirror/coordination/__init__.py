"""The states of mirrored partitions, kept in the internal topic `__mirror_state` (Kafka's
coordinator pattern).

In: ReadMirrorStates and WriteMirrorStates of partitions' leaders, metadata about topics and
mirrors. Out: stored states and last mirror epochs, with the offset that the next write follows on.

Start with `mirror_coordinator`: which broker coordinates a partition, and what it does on its
shards. `mirror_coordinator_shard` is one partition of the topic: it decides on writes and replays
records (`mirror_records` is their format). `mirror_state_client` is the other side: how a
partition's leader reads and writes wherever the coordinator is; `state_offset_tag` is what the two
tell each other beyond the KIP's fields.
"""
