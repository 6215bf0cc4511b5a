"""Replication inside one cluster: the partitions that a broker hosts, as leader and as follower.

In: metadata deltas, produces and fetches. Out: answers (futures), appends to `storage`'s logs,
fetches from other leaders, and ISR proposals to the controller.

Begin with `replica_manager`: it lists the parts, wires them, and is what `server`, `coordinator`
and `mirror` talk to. `partition` has the rules of one partition, `replica_set` its ISR, and
`abstract_fetcher` how anything is fetched from a leader. Packages above this one import
`ReplicaManager`, `Partition` with its `ReadOnlyReason`, `ReplicaFetcherManager`,
`AlterPartitionManager`, the fetch sessions, and the values in `replica_types`.
"""
