"""MirrorMaker 2 (KIP-382): its rules as data and as pure functions of events.

The rules, lowest first. Nothing here does I/O; connectors and tasks call it with what their clients
got.

    replication_policy, cycles      names of remote and internal topics, and whether a topic may flow on
    topic_filters                   which topics, groups and configs are copied
    formats                         heartbeats, checkpoints and offset syncs, to the byte
    offset_syncs, offset_sync_store when offsets are recorded, and how a group's offset is translated
    checkpoints                     which checkpoints are emitted, which group offsets are written
    config_sync, acl_sync, topic_creation
    topic_creation_groups           topics that tasks make (topic.creation.*)
    connector_config, mirror_maker_config, flows
                                    every property, and the grammar of mm2.properties
    remote_cluster_utils            what clients ask of topic names and checkpoints

The law is Apache Kafka 4.3 (`connect/mirror`) where it differs from KIP-382's text. A mistake of
Apache's is kept and named where it happens, because two MirrorMakers on one pair of clusters have
to agree.
"""
