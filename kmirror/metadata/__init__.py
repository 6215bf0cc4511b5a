"""The cluster's metadata: an immutable image, and the deltas that lead from one image to the next.

In: records of `__cluster_metadata`, or a snapshot of it, in log order. Out: a `MetadataImage` at an
offset, and a `MetadataDelta` for every `MetadataPublisher`. Brokers and the controller use the same
classes. The rules that both sides share live here as well: feature levels, valid configs of each
kind of resource, names and filters of mirrors, quotas' entities, and the authorizer.

Start reading: `image.py` (what a cluster looks like), `delta.py` (how a record changes it),
`loader.py` (from the log to publishers); `authorizer/` for ACLs.

`controller`, `replica`, `coordinator`, `mirror` and `server` are built on this room; `admin`, `cli`
and `sim` may import it, too, `spark` may not. It imports only `record`, `wire` and `common`.
"""
