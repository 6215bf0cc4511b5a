"""Our log and the source's: whether ours is the beginning of theirs, and where it has to be cut.

In: a local log (`storage.UnifiedLog`), and answers about the source's. Out: verdicts (keep, cut at
an offset, start over, wait), cuts, and the facts that STOPPING needs of a log (transactions,
epochs, resets).

Start with `log_questions`: a comparison is a generator that yields questions as data and returns a
verdict, so the questions of many partitions can go into one request. `log_verifier` has the
comparisons; it uses `log_comparison` (batch by batch) and `log_completeness` (holes that cleaners
left). `log_alignment` has the pure rules over batch headers, `local_log` reads headers and makes
cuts, and `truncation_guard` says when the mirror refuses to follow the source.
"""
