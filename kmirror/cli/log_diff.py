"""`kafka-log-diff A B`: are two logs, data dirs or clusters equal, and if not, where and how?

Exit code 0: equal (what `--ignore` and `--allow-lag` tolerate does not count). 1: different, or not
all was compared that should be: a log is missing on a side (`set-incomplete`). 2: an input cannot be
read or is corrupt, or the arguments are wrong; one line on stderr, or in the partition's verdict,
says which file and byte. `verify` does the comparison. This file reads
arguments and chooses the engine, `log_diff_inputs` opens A and B, and `log_diff_text` and
`log_diff_html` show the report.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from kmirror.cli.user_errors import exit_code

DESCRIPTION = """\
Compare A with B, byte by byte from the higher log start offset on, and classify each difference. A and B are, in any mix:
  a directory             a broker's log.dir (all its partitions, matched by name), one partition's folder, or a folder of log.dirs, of a
                          whole cluster for example: then the replicas of a partition are compared with each other, too
  bootstrap:HOST:PORT,... a live cluster, read as a consumer does (read_uncommitted, up to the high watermark)
  hdfs://... s3://...     a remote folder (needs kmirror[spark])
Segment boundaries may differ. Nothing is written to A or B; a broker may be running on them."""

KINDS = """\
kinds of difference:
  missing                 only A has it (a tail that B lacks: also see --allow-lag)
  extra                   only B has it
  bytes-differ            both have batches at these offsets, with other contents
  epoch-only              equal but for the leader epoch
  control-only            only transaction markers, MIRROR_PID_RESET or other control batches are concerned
  re-batched              the same records in other batches or another compression
  key-lost                B lacks the last record of a key, where its cleaner has been but had no reason to remove it; keys are named by hash
  compacted               one side lacks records that its cleaner removed (cleaner-offset-checkpoint, holes in batches, or superseded
                          keys where the metadata log says that the topic was compacted, or the cluster that it is)
  not-decided             one side lacks records, and nothing tells a cleaner's work from a loss: nothing says that the topic was compacted
                          when it could matter, the records lie in the newest segment of a copied log or are too young
                          (min.compaction.lag.ms) by configs that may have been others, or the keys do not fit (TMPDIR is full)
  mirror-rule             with --mirror: B's log is not as KIP-1279 wants it
  front-missing           with --mirror: A has records before B's log start; a failback would delete them in A, too
  group-beyond-end        a group of A or B has committed an offset behind the end of A's or B's log (folders with __consumer_offsets)
  set-incomplete          not all was compared that should be: by the metadata log, the checkpoints or the brokers, a log of A or B is missing,
                          empty, there twice, of another topic, in a folder that is no partition's, or unknown to its own cluster only;
                          with --mirror: B mirrors it, and no log of it was given
  beyond-high-watermark   a tail at or above the high watermark of the log that holds it (replication-offset-checkpoint)

exit codes:
  0  equal, and nothing is known to be missing on a side; what --ignore and --allow-lag tolerate does not count, and neither do warnings
     (logs that are nobody's, or that nobody asked for) and what is "not looked at"
  1  different, or not all was compared that should be (set-incomplete)
  2  an input cannot be read or is corrupt, or the arguments are wrong"""


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="kafka-log-diff",
        description=DESCRIPTION,
        epilog=KINDS,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("left", metavar="A", help="the first log, data dir or cluster (the source, for a mirror)")
    add("right", metavar="B", help="the second one (the destination)")
    add("--engine", choices=("auto", "local", "spark"), default="auto", help="where to compare: on this machine (local), or on Spark in tasks "
        "of 64 to 128 MB (spark). auto is local unless an input is remote or larger than 64 GiB, and kmirror[spark] is installed")  # fmt: skip
    add("--master", metavar="URL", help="where Spark runs, as spark-submit takes it (spark://host:7077, yarn, local[4]); default: what "
        "spark-submit or spark-defaults.conf set, else all cores of this machine; implies --engine spark")  # fmt: skip
    add("--topics", metavar="REGEX", help="only topics whose whole name matches")
    add("--partitions", metavar="LIST", help="only these partition numbers, for example 0,2-5")
    add(
        "--include-internal",
        action="store_true",
        help="also compare Kafka's own topics, such as __consumer_offsets (otherwise they are left out in data dirs and clusters)",
    )
    add("--mirror", action="store_true", help="B mirrors A, as its __mirror_state says: compare what was mirrored only, in which nothing may be B's "
        "own; of stopped partitions, where it ends and that the reset of a failover is there; replicas as ever")  # fmt: skip
    add("--no-replicas", action="store_true", help="compare only one replica of each partition in a cluster's folders")
    add("--ignore", metavar="KINDS", default="", help="kinds of difference to ignore, separated by commas; see below")
    add("--allow-lag", action="store_true", help="ignore a tail of A that B does not have yet")
    add(
        "--max-differences",
        metavar="N",
        type=int,
        default=100,
        help="the number of differences to show for each partition; all of them are counted (default: 100)",
    )
    add("--output", metavar="DIR", help="also write the verdicts as tables (Parquet, or JSON lines without pyarrow), report.html, and a fingerprint of both sides: "
        "each log is read once, by itself, and the next run with this DIR reads only segments that are new or changed")  # fmt: skip
    add("--full", action="store_true", help="with --output: read all segments again, and trust nothing that an earlier run knew of them; otherwise a "
        "segment is read again if its size, time, file (inode and ctime on a local disk) or its log's cleaner checkpoint has changed")  # fmt: skip
    add(
        "--deep",
        action="store_true",
        help="with --output: include the records in the fingerprint, not only the batch headers and their CRCs",
    )
    add("--json", action="store_true", help="print the report as JSON instead of text")
    add("--report", metavar="FILE", type=Path, help="also write the report as one self-contained HTML page")
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """The entry point; returns the exit code."""
    return exit_code(lambda: _run(arguments), failed="kafka-log-diff: ", failure_code=2)


def _run(arguments: Sequence[str] | None) -> int:
    options = build_parser().parse_args(arguments)
    options.given = list(sys.argv[1:] if arguments is None else arguments)
    from kmirror.cli.log_diff_run import run_log_diff

    return run_log_diff(options)


if __name__ == "__main__":
    sys.exit(main())
