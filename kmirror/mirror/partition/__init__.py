"""One mirrored partition on the broker that leads it: the state table (`mirror_state_machine`)
executed.

In: metadata updates, refreshes, notices from fetchers. Out: states written at the coordinator,
partitions given to and taken from fetchers, bumps of the leader epoch, the read-only flag, cuts,
and the MIRROR_PID_RESET that comes before a partition is writable.

Start with `mirror_partition`, the driver: a `step_loop` that looks at the levels and takes rows of
the table; `mirror_actions` does what the rows say. `mirror_partition_status` has the state at the
coordinator and the reason why a partition does not go on; `led_partition` is the local side (log,
followers, leader epoch). `preparing` (D5) and `stopping` (D4) are the two long pieces of work; both
wait for `replicas` through `partition_wait`. `leader_epoch_bumper` and `mirror_services` are shared
by all partitions of a broker; `partition_description` turns them into rows of DescribeMirrors.
"""
