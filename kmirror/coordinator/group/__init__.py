"""The group coordinator: classic groups, consumer groups (KIP-848), offsets, share groups' offsets.

In: requests such as JoinGroup, ConsumerGroupHeartbeat and OffsetCommit. Out: records of
`__consumer_offsets`, and assignments and offsets for members.

    GroupCoordinator           one per broker: finds the shard and waits for its answer
      GroupCoordinatorShard    one per partition of `__consumer_offsets`
        GroupMetadataManager   the groups: classic_*, consumer_group_*, share_group_*
        OffsetMetadataManager  committed offsets, pending transactional ones included

Start reading: `group_coordinator.py`, `group_metadata_manager.py`, then `consumer_group_manager.py`
(KIP-848) or `classic_group_manager.py`. Streams groups are not served, nor are members of share
groups.

`server` calls `GroupCoordinator`. `mirror` reads and commits offsets with the values defined here.
"""
