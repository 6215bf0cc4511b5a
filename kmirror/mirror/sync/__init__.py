"""What is synced from the source besides records: topics, configs, ACLs, and the offsets of
consumer groups and share groups.

In: a refresh interval, and what the source says. Out: requests to the controller and to group
coordinators, and the count of failed steps.

Start with `mirror_metadata_manager`: which mirrors this broker syncs, and the cycle. `sync_cycle`
is the input of each step. The steps are `topic_sync`, `config_sync`, `acl_sync`,
`group_offset_sync` and `share_group_sync`. The last two write through `destination_groups` and
`destination_share_groups`, only what `group_differences` finds, and only for partitions in
MIRRORING (`writes_while_mirrored`).
"""
