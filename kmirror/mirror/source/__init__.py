"""The source cluster of a mirror: connections to it, questions, and what is known about it.

In: a mirror's configs, and what the source's brokers answer. Out: metadata of the source, its last
mirror epochs, batches as they are. Nothing here touches a local log or a state.

Start with `mirror`: one mirror, its configs, whether it is suspended, and the questions that many
partitions ask the source together. `source_cluster` holds the metadata connections, which
`source_metadata` uses for the syncs. `source_end_point` is one source broker as a fetcher sees it,
with `source_fetch_session`. `last_mirror_epoch` asks every source broker and decides which epoch
PREPARING begins with. `channels` makes the clients, with the mirror's security settings.
"""
