"""Cluster mirroring (KIP-1279) on one broker: topics of a source cluster are copied byte for byte
into topics of this one.

In: metadata deltas from `server`, the answers of source clusters, requests of the mirror APIs
(`server.apis.mirror`). Out: appends and cuts of local logs (`replica`), records in
`__mirror_state`, requests to the controller, to other brokers and to the coordinators of groups.

Start with `mirror_state_machine` (what can happen to a partition) and `mirror_manager` (what a
broker has). `server` imports the modules of this folder and, from `coordination`,
`mirror_coordinator_shard` and `state_offset_tag`; `cli` imports `logs` and
`source.source_end_point`, to compare logs as fetchers do. Each subpackage imports only from those
below it:

    sync           topics, configs, ACLs and group offsets follow the source's
    partition      the driver of one mirrored partition: the state table executed
    fetch          copies batches from the source's brokers
    logs           whether a log is the beginning of the source's, and where it has to be cut
    source         connections to the source, and what is known of it
    coordination   the states of partitions in `__mirror_state`

Modules that all of them share are in this folder: `mirror_state_machine`, `mirror_safeguards`,
`ports`, `request_batcher`.
"""
