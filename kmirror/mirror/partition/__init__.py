"""One mirrored partition on the broker that leads it: the state table (`mirror_state_machine`)
executed.

In: metadata updates, refreshes, what fetchers tell. Out: states written at the coordinator,
fetchers begun and ended, bumps of the leader epoch, the read-only flag, cuts, and the
MIRROR_PID_RESET that makes a partition writable.

Start with `mirror_partition`, the driver: a `step_loop` that looks at the levels and takes rows of
the table; `mirror_actions` does what rows say. `mirror_partition_status` is the state at the
coordinator and why a partition does not go on; `led_partition` is the local side (log, followers,
leader epoch). `preparing` (D5) and `stopping` (D4) are the two long pieces of work; both wait for
`replicas` through `partition_wait`. `leader_epoch_bumper` and `mirror_services` are shared by all
partitions of a broker; `partition_description` makes rows of DescribeMirrors of them.
"""
