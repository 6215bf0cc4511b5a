"""What all coordinators share: shards of state over the partitions of one internal topic.

In: a coordinator's shard class (`CoordinatorShard`) and the partitions that this broker leads. Out:
its records, appended to the partition's log and replayed, and its responses, released when the high
watermark has passed them.

The owner writes synchronous functions of (shard, now) that return a `CoordinatorResult`. Loading,
appending, waiting, timers and metrics are done here. The log is reached through `PartitionLog`, so
tests can replace it.

Start reading: `coordinator_shard.py`, then `coordinator_runtime.py`, which uses `log_replay.py`,
`coordinator_batches.py` and `commit_waits.py`.

`coordinator.group`, `coordinator.transaction`, `coordinator.share` and `mirror` build on it, and
`server` hands in the log (`ReplicaManagerLog`).
"""
