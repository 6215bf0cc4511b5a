"""Compares logs again that changed while `kafka-log-diff` read them.

A verdict of difference or error counts only if the folders still hold what was listed. A cleaner or
retention at work makes files vanish and batches overlap that are equal in truth. So such logs are
listed and compared again. Logs that change each time are an error: they were not judged.
"""

from __future__ import annotations

import posixpath
import time
from collections.abc import Callable, Sequence

from kmirror.verify.compared_log import ComparedLog, DirectoryLog
from kmirror.verify.data_dir_logs import with_checkpoints
from kmirror.verify.moving_logs import MAX_READINGS, PAUSE_S, has_moved, listed_again
from kmirror.verify.verdict import PartitionVerdict, Status, error_verdict

LogPair = tuple[ComparedLog, ComparedLog]
Compare = Callable[[LogPair], PartitionVerdict]


def until_settled(pairs: Sequence[LogPair], verdicts: Sequence[PartitionVerdict], compare: Compare) -> list[PartitionVerdict]:
    """Returns the verdicts on `pairs`, in any order, with those that are in doubt made anew by
    `compare`."""
    doubtful = {(one.topic, one.partition) for one in verdicts if one.status is not Status.EQUAL}
    settled = {}
    for name in doubtful:
        of_name = [pair for pair in pairs if pair[0].topic_partition == name]
        if any(_now(log) is not log for pair in of_name for log in pair):
            settled[name] = [_settled(pair, compare) for pair in of_name]
    kept = [one for one in verdicts if (one.topic, one.partition) not in settled]
    return kept + [one for found in settled.values() for one in found]


def _settled(pair: LogPair, compare: Compare) -> PartitionVerdict:
    for _ in range(MAX_READINGS):
        left, right = _now(pair[0]), _now(pair[1])
        if left is None or right is None:
            gone = pair[0] if left is None else pair[1]
            text = f"{gone.name} was deleted or renamed while it was compared"
            return error_verdict(*pair[0].topic_partition, text)
        pair = left, right
        verdict = compare(pair)
        if verdict.status is Status.EQUAL or (_now(pair[0]) is pair[0] and _now(pair[1]) is pair[1]):
            return verdict
        time.sleep(PAUSE_S)
    text = f"segments were replaced or deleted each of the {MAX_READINGS} times that they were compared, so nothing is known; compare again"
    return error_verdict(*pair[0].topic_partition, text)


def _now(log: ComparedLog) -> ComparedLog | None:
    """Returns the log as its folder has it now: `log` itself if nothing was replaced or deleted,
    None if the folder is gone."""
    if not isinstance(log, DirectoryLog):
        return log
    now = listed_again(log.files, log.partition)
    if now is None:
        return None
    if not has_moved(log.partition, now):
        return log
    (again,) = with_checkpoints(log.files, posixpath.dirname(now.path) or ".", [now])
    again.cleaner = log.cleaner
    return again
