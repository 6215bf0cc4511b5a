"""Record batches: the bytes of a log, read, built and checked without a disk or a network.

In come the bytes that a producer, a leader or a segment holds; out come views (`RecordBatch`),
records (`Record`), columns for analysis, or new batches. Nothing is copied that can be looked at.

Begin with `record_batch`, which has the grammar of the bytes. `builder` and `control_record` write
batches, `compression` has the codecs, `columns` decodes many records at once. `produce_validation`
is what a produce request may carry, `validation` what a leader checks and changes in a batch, and
`legacy` what is said about the formats before Kafka 0.11. All modules may be imported from above.
"""
