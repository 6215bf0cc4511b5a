"""Mirror fetchers: tasks that copy batches from the source's brokers into local logs.

In: partitions to fetch (`FetchTarget`), and the source's answers. Out: appends, cuts, and notices
to each target: progress, a delay, a cut, the partition given back or rejected, a failed disk. A
fetcher knows nothing of mirror states.

Start with `mirror_fetcher_manager` (which fetcher has which partition), then `mirror_fetcher` (one
round). The parts of a fetcher: `fetched_mirror_partition` (one partition, and its target's port),
`fetcher_partitions` (which ones are fetched, compared or delayed), `fetcher_inquiries` (comparisons
with the source's log, and cuts), `fetch_failures` (what becomes of a partition that cannot go on).
`source_progress` is what the source has said about a partition; `fetcher_stats` is for the metrics.
"""
