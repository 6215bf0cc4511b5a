"""Record batches: the bytes of a log, read, built and checked without a disk or a network.

In: the bytes that a producer, a leader or a segment holds. Out: views (`RecordBatch`), records
(`Record`), columns for analysis, or new batches. Nothing is copied where a view will do.

Start reading: `record_batch`, which describes the layout of the bytes. `builder` and
`control_record` write batches, `compression` has the codecs, `columns` decodes many records at
once. `produce_validation` checks what a produce request may carry, `validation` what a leader
checks and changes in a batch, and `legacy` recognises the formats before Kafka 0.11. Every room
above may import any module of this one. This room imports `wire` and `common`.
"""
