"""Workers of a flow that share its work (Connect's distributed mode, as Kafka's dedicated MirrorMaker
runs it). A worker joins the group `<source>-mm2` at the target; its leader gives out the tasks.

Start with `distributed_herder`, one worker. `worker_group_member` is its membership,
`cluster_config_state` what the workers agree on, `connect_protocol` the bytes of the group protocol,
`config_backing_store` and `status_backing_store` the topics.

`driver` makes one `DistributedHerder` for each flow. Connectors and tasks come from there as plans:
nothing here knows what they copy.
"""
