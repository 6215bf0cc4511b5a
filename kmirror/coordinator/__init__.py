"""The coordinators that keep their state in an internal topic, all on one runtime.

    common/        CoordinatorRuntime: loads a partition's state when its leadership comes, writes,
                   reads, and unloads it when the leadership goes
    group/         `__consumer_offsets`: classic and consumer groups, offsets, share groups' offsets
    transaction/   `__transaction_state`: transactional ids, and the markers that end transactions
    share/         `__share_group_state`: the delivery state of share partitions

In: requests from `server`'s handlers, and gains and losses of leadership from metadata deltas. Out:
records appended to the internal topic, and responses that wait for the high watermark. A shard
decides synchronously and returns a `CoordinatorResult` (records, response). State changes only
where records are replayed, whether they were just written or read back.

Start reading: `common/coordinator_shard.py`, `common/coordinator_runtime.py`, then
`group/group_coordinator.py`.

`mirror` (its coordinator is a fourth one on this runtime), `server` and the rooms above may import
this one. It imports `replica` and the rooms below it.
"""
