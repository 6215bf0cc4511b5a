"""The partitions of one broker: appends, fetches, replication, and operations that wait for them.

In: produces and fetches from `server`'s handlers, metadata deltas (`ReplicaManager.apply_delta`),
and batches that this broker's fetchers get from leaders. Out: appends to `storage`'s logs, results
for responses, and ISR changes for the controller.

A `Partition` has a role (leader or follower), an ISR and a high watermark. It also has the flag
that makes a partition read-only for clients, which `mirror` sets.

Start reading: `ReplicaManager`, then `Partition`; `AbstractFetcher` and `ReplicaFetcher` for
followers, `DelayedOperationPurgatory` for requests that wait, `FetchSessionCache` for KIP-227.

`coordinator`, `mirror` and `server` import this room (and `cli` and `sim` single modules);
`controller` and `admin`, on the same line, may not. It imports `metadata` and the rooms below.
"""
