"""Replay: what a broker must have written beside its segments, computed only from the bytes of the
segments.

    slices -> partials -> associative merge -> close

A *partial* says what one run of batches does, whatever came before it. Two consecutive partials
merge into the partial of both, and neighbours may be merged in any order. So a huge partition is a
tree of merges on many machines, and tomorrow's segments are merged into what is known of
yesterday's. To *close* a partition is to say what lies left of the log (nothing, or what a snapshot
claims). The result is rows of tables, and findings where a file on disk says otherwise.

    structure      counts, offsets, CRC, order, gaps of segments        names and sizes
    leader_epochs  runs of (epoch, first offset)                        leader-epoch-checkpoint
    producers      producers' epochs, last batches, coordinator epochs  every .snapshot
    transactions   aborted, ongoing, forgotten; last stable offsets     .txnindex
    indexes        entries that name a batch                            .index, .timeindex
    compaction     the survivor of each key, and what else is left      cleaner-offset-checkpoint

The last column says which names and files each part is compared with.

Files: `partial` puts the parts together, `slice_replay` makes a partial of a slice, `plan` says
what tasks read, `close` compares, `folder` does all of it for a folder. `compaction` reads keys, in
a second pass over compacted logs (`close_compaction` judges). Engines: this process (`folder`), a
process for each core (`cli.verify_engines`), Spark (`spark.replay`).

Start reading: `partial`, then one part such as `leader_epochs`. `cli` and `spark` import this.
"""
