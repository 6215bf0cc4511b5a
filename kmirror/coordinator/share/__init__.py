"""The share coordinator (KIP-932): keeps the delivery state of share partitions.

In: InitializeShareGroupState, ReadShareGroupState, WriteShareGroupState, DeleteShareGroupState and
ReadShareGroupStateSummary, all between brokers. Out: records of `__share_group_state`, which is
pruned by raising its log start, never by compaction.

`Persister` is the other side: it lets the group coordinator reach this state, on whichever broker
it is.

Start reading: `share_coordinator.py`, then `share_coordinator_shard.py`; `persister.py` for the
caller's side.

`server` runs the `ShareCoordinator`, and `coordinator.group` uses its state through `Persister`.
"""
