"""Logs on disk, byte for byte as Kafka writes them: segments, indexes, producer state, checkpoints.

In: record batches to append, offsets to read from, and the ports that everything goes through (a
file system, a clock, a scheduler). Out: slices of files that the network sends, offsets, and
`KAFKA_STORAGE_ERROR` when a disk fails. Every step is synchronous; what takes long is offered in
pieces that `server` runs on a worker.

Start reading: `UnifiedLog` (one partition's log), then `LogSegment` below it and `LogManager` (all
logs of a broker) above it; `LogLoader` for crash recovery, `LogCleaner` for compaction.
`SegmentReader` reads logs that belong to another process and never writes.

Every room but `record`, `wire` and `common` may import this one. `verify` uses only what reads
files; `spark` writes logs with the classes of this room, too, without a `LogManager`. It imports
`record`, `wire` and `common`, and not asyncio.
"""
