"""`kmirror replay --engine spark`: one Spark task per partition, each a producer of its own.

All tasks share one schedule. Executors read the recording themselves (given paths instead of URIs,
each must see the same disk) and connect to the destination. Paths are those of this process: the
logs', the progress's and the client's key stores are absolute before a task gets them. A partition
whose task has to wait for a core is behind the schedule by then, and catches up as fast as it can.

Spark runs a task again when its executor is lost, and may run it twice at once (speculation). With
`--state`, on a disk that all executors see, such a run continues the replay: nothing is lost and
nothing is repeated. Without it a task would start from the beginning. So `--state` is required
unless Spark runs in this machine's own process, where a task is tried once. A folder of the same
name on an executor's own disk would do harm, since the next run would not find the progress there
and would replay everything again. So this process leaves a mark in the folder, and a task that
does not see it sends nothing.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from socket import gethostname
from typing import Any, Final

from kmirror.cli.replay_pace import Schedule
from kmirror.cli.replay_partition import PartitionOutcome
from kmirror.cli.replay_plan import Plan
from kmirror.cli.replay_progress import shown
from kmirror.cli.replay_report import report
from kmirror.cli.replay_run import Destination, replay_partitions, scheduled
from kmirror.cli.replay_source import RecordedPartition
from kmirror.cli.replay_stop import Stop
from kmirror.cli.user_errors import one_line
from kmirror.common.errors import KmirrorError
from kmirror.runtime.api import Runtime
from kmirror.runtime.asyncio_runtime import run
from kmirror.runtime.system_ports import SystemRandom

SEEN_WITHIN_S: Final = 10.0
"""How long a network disk may take to show a new file to another machine."""


def replay_on_spark(destination: Destination, plan: Plan, speed: float | None, master: str | None, *, as_json: bool) -> int:
    """Returns the exit code.

    KmirrorError with the first partition's error, after all tasks have ended.
    """
    from kmirror.spark.job_progress import collected, watched
    from kmirror.spark.session import is_local, spark_session

    spark = spark_session("kmirror-replay", master=master)
    context = spark.sparkContext
    if destination.state_folder is None and not is_local(context.master):
        raise KmirrorError(f"on {context.master} Spark may run a task again: give --state DIR, on a disk that every executor sees")
    schedule, done = scheduled(destination, plan, speed)
    paced = speed is not None
    with _marked(destination.state_folder) as mark, shown(plan.size, done, as_json=as_json, is_paced=paced) as progress:
        tasks = [(destination, partition, schedule, mark) for partition in plan.partitions]
        rows = context.parallelize(tasks, len(tasks)).map(_task)
        with watched(context, [partition.size for partition in plan.partitions], lambda size: progress.told(0, size, 0.0)):
            answers: list[dict[str, Any] | str] = collected(rows)
        errors = [answer for answer in answers if isinstance(answer, str)]
        if errors:
            raise KmirrorError(errors[0])
        outcomes = [PartitionOutcome(**answer) for answer in answers if isinstance(answer, dict)]
        progress.records, progress.size = sum(one.records for one in outcomes), sum(one.size for one in outcomes)
    report(progress, outcomes, plan, destination, as_json=as_json)
    return 0


@contextmanager
def _marked(folder: str | None) -> Iterator[Path | None]:
    """Leaves a file in the folder of the progress for as long as the tasks run."""
    if folder is None:
        yield None
        return
    mark = Path(folder) / f".seen-by-tasks-{SystemRandom().token_bytes(8).hex()}"
    mark.parent.mkdir(parents=True, exist_ok=True)
    mark.touch()
    try:
        yield mark
    finally:
        mark.unlink(missing_ok=True)


def check_mark(mark: Path | None, *, within_s: float = SEEN_WITHIN_S) -> None:
    """KmirrorError if this machine does not see the driver's mark."""
    deadline = time.monotonic() + within_s
    while mark is not None and not mark.exists():
        if time.monotonic() > deadline:
            raise KmirrorError(
                f"{gethostname()} does not see what the driver has written to {mark.parent}: --state must be on a disk that the driver and "
                "every executor have; nothing was sent from there"
            )
        time.sleep(within_s / 50)


def _task(task: tuple[Destination, RecordedPartition, Schedule, Path | None]) -> dict[str, Any] | str:
    """Returns the outcome of one partition, or one line that says why there is none.

    An error that the user must fix is not retried.
    """
    destination, partition, schedule, mark = task

    async def replay(runtime: Runtime) -> list[PartitionOutcome]:
        return await replay_partitions(runtime, destination, [partition], schedule, Stop(runtime), lambda records, size, lag_ms: None)

    try:
        check_mark(mark)
        (outcome,) = run(replay)
    except (KmirrorError, OSError) as error:
        return one_line(error)
    return asdict(outcome)
