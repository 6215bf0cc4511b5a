"""The transaction coordinator: who holds a transactional id, and how its transactions end.

In: InitProducerId, AddPartitionsToTxn, AddOffsetsToTxn and EndTxn; timeouts. Out: records of
`__transaction_state`, and WriteTxnMarkers requests to the leaders of a transaction's partitions.

EndTxn is answered once the decision is committed. A task writes the markers afterwards, and again
after a change of the coordinator, until every partition has its marker.

Start reading: `transaction_state.py` (the table of states), `transaction_coordinator.py`, then
`transaction_coordinator_shard.py`; `transaction_marker_channel_manager.py` sends the markers.

`server` calls `TransactionCoordinator`, and `sim` switches single rules of it off in its ablations.
"""
