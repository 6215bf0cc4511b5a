"""Workers of a flow that share its work (Connect's distributed mode, as Kafka's dedicated MirrorMaker
runs it). A worker joins the group `<source>-mm2` at the target; its leader gives out the tasks.

Start with `worker`, one life of a worker, and `distributed_herder`, which keeps it alive and answers
what users and other workers ask (`herder`). `worker_group_member` is its membership,
`cluster_config_state` what the workers agree on, `connect_protocol` the bytes of the group protocol,
`config_backing_store` and `status_backing_store` the topics, `source_offsets` where connectors go on,
`leader_requests` what it asks the leader.

A worker that shares nothing is a `standalone_herder`, with a `standalone_connector` each, and offsets in a
file (`file_offset_storage`, `java_hash_map`).

`driver` makes one `DistributedHerder` for each flow, `connect_worker` one for a Connect cluster;
`standalone_worker` makes a `StandaloneHerder`. Connectors and tasks come from there as plans
(`connector_plan`): nothing here knows what they copy.
"""
