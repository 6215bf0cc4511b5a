"""Which micro-batches a log.dir has: the file `.kmirror-batches` in it, `{"name": last number}`.

Spark runs a micro-batch again if its query ends after `foreachBatch` and before the batch is in the
checkpoint. An append then wrote the same records a second time. With the options `txnAppId` and
`txnVersion` (as in Delta Lake: who writes, and the batch's number) an append whose number is not
above the last one of that name writes nothing, and says so in the log.

The file belongs to the commit: it is written under the lock, before the first segment moves, and
the commit's journal has it as it was (`commit_journal`). So it is undone with the segments, and
where a broker has recovered all of them, it is there, too. It is a plain file, which brokers pass
over. `overwrite` replaces it with the logs.
"""

from __future__ import annotations

import json
from typing import Final

from kmirror.common.errors import CorruptFileError
from kmirror.spark.local_writes import WritableLocalFiles
from kmirror.spark.write_options import WriteOptions

BATCHES_FILE_NAME: Final = ".kmirror-batches"
TEMPORARY_BATCHES_FILE_NAME: Final = BATCHES_FILE_NAME + ".tmp"


def read_batches(files: WritableLocalFiles, path: str) -> dict[str, int]:
    """Returns the last number by name. CorruptFileError if the file is damaged."""
    place = f"{path}/{BATCHES_FILE_NAME}"
    if not files.exists(place):
        return {}
    try:
        return {str(name): int(number) for name, number in json.loads(files.read_bytes(place)).items()}
    except (ValueError, AttributeError, TypeError) as error:
        raise CorruptFileError(place, 0, f"no list of micro-batches: {error!r}") from error


def has_batch(files: WritableLocalFiles, options: WriteOptions) -> bool:
    """Whether the log.dir has the micro-batch that is to be written."""
    batch = options.batch
    return batch is not None and read_batches(files, options.path).get(batch.name, -1) >= batch.number


def note_batch(files: WritableLocalFiles, options: WriteOptions, *, overwrite: bool) -> None:
    """Writes the file anew, whole, for a commit that has written its journal."""
    batch = options.batch
    if batch is None and not overwrite:
        return
    known = {} if overwrite else read_batches(files, options.path)
    if batch is not None:
        known[batch.name] = batch.number
    place, temporary = f"{options.path}/{BATCHES_FILE_NAME}", f"{options.path}/{TEMPORARY_BATCHES_FILE_NAME}"
    if not known:
        if files.exists(place):
            files.remove(place)
        return
    files.write_bytes(temporary, json.dumps(known, sort_keys=True).encode())
    files.fsync_path(temporary)
    files.rename(temporary, place)
    files.fsync_path(options.path)
