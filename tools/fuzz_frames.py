"""Send mutated request frames to an embedded broker and say what came of it.

    python tools/fuzz_frames.py --frames 1000000 --seed 1 [--workers 4] [--in-process 0.5] [--minutes 30] [--json FILE]

Frames are taken from the golden captures and changed at random
(tests/support/brokers/frame_fuzzer.py says how, and what is checked). The same seed sends the same
frames. Exit code 1 when something unexpected was logged, a task or a connection is left over, or
another connection was disturbed.
"""

from __future__ import annotations

import argparse
import json
import logging
import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tests"))

from support.brokers.frame_fuzzer import Campaign, Outcome

PROGRESS_S = 10.0


class Progress:
    """Prints one line every ten seconds."""

    def __init__(self, frames: int) -> None:
        self._frames = frames
        self._started = self._said = time.monotonic()

    def __call__(self, outcome: Outcome) -> None:
        now = time.monotonic()
        if now - self._said >= PROGRESS_S:
            self._said = now
            rate = outcome.frames / (now - self._started)
            print(f"{outcome.frames:,} of {self._frames:,} frames, {rate:,.0f} a second, {outcome.answered:,} answered", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--frames", type=int, default=1_000_000, help="how many frames the broker has to deal with (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="what the frames follow from (default: %(default)s)")
    parser.add_argument("--workers", type=int, default=4, help="connections at a time (default: %(default)s)")
    parser.add_argument("--in-process", type=float, default=0.5, help="the part that goes without sockets (default: %(default)s)")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="send no more after so long (default: no limit)")
    parser.add_argument("--json", type=pathlib.Path, help="write the outcome to this file, too")
    options = parser.parse_args()
    logging.basicConfig(level=logging.WARNING, handlers=[logging.NullHandler()])
    outcome = Campaign(options.seed).run(
        options.frames,
        workers=options.workers,
        in_process=options.in_process,
        limit_s=options.minutes * 60,
        progress=Progress(options.frames),
    )
    summary = {name: value for name, value in vars(outcome).items() if name not in ("apis", "problems")}
    print(json.dumps(summary | {"apis": len(outcome.apis)}, indent=1))
    for problem in outcome.problems:
        print(f"PROBLEM: {problem}\n")
    if options.json is not None:
        options.json.write_text(json.dumps(vars(outcome), indent=1) + "\n")
    return 1 if outcome.problems else 0


if __name__ == "__main__":
    sys.exit(main())
