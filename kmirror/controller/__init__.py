"""The active controller of a one-voter metadata quorum: turns requests into metadata records.

In: requests of the controller listener (`ControllerApis`), and time. Out: records in
`__cluster_metadata`, and a response once they are flushed. Each `*ControlManager` decides for one
kind of resource: a synchronous function of the image and the request that returns a
`ControllerResult` (records, response). `QuorumController` appends the records, replays them into
the image, flushes, and answers. Brokers fetch the log (`MetadataLogApis`).

Start reading: `quorum_controller.py`, `controller_result.py`, then a manager such as
`replication_control_manager.py`; `metadata_log.py` for the log. `mirror_control_manager.py` is
KIP-1279's part. `storage_tool.py` formats a node's directories.

`server` runs the controller; `embedded`, `cli` and `sim` format nodes with `storage_tool`. Rooms on
the same line, `replica` and `admin`, may not import it. It imports `metadata` and the rooms below.
"""
