"""Logs on disk, byte for byte as Kafka writes them: segments, indexes, producer state, checkpoints.

In: record batches to append, offsets to read from, and the ports that everything goes through (a
file system, a clock, a scheduler). Out: slices of files that the network sends, offsets, and
`KAFKA_STORAGE_ERROR` when a disk fails. Every call is synchronous. Work that takes long is offered
in steps, which `server` runs on a worker.

Start reading: `UnifiedLog` (one partition's log), then `LogSegment` below it and `LogManager` (all
logs of a broker) above it; `LogLoader` for crash recovery, `LogCleaner` for compaction.
`SegmentReader` reads logs that belong to another process and never writes.

Every room but `record`, `wire` and `common` may import this one. `verify` uses only the parts that
read files. `spark` also writes logs with the classes of this room, without a `LogManager`. This
room imports `record` and `common`, and not asyncio.
"""
