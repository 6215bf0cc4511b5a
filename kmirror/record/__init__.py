"""Record batches, Kafka's message format v2: read as views over bytes, and built byte by byte.

In: bytes of a log or of a produce request. Out: `RecordBatch` views, `Record`s, numpy columns of a
batch's records (`columns.py`), and the bytes of new batches (`RecordBatchBuilder`). Compression,
control records and the leader's checks of a produced batch (Kafka's `LogValidator`) belong here.
Nothing here does I/O.

Start reading: `record_batch.py` (the byte layout, and what the CRC covers), then `builder.py`;
`validation.py` for what a leader checks and assigns.

The rooms from `storage` upwards may import this one. It imports `wire` and `common`, not asyncio.
"""
