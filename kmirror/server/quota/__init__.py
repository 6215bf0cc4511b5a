"""Client quotas: bytes, request time, and changes to topics (KIP-13, KIP-124, KIP-599).

In: what each request used, as (principal, client id) and an amount, and the quotas in metadata
deltas. Out: how long a client must wait, in ms.

`QuotaManagers` holds one manager per kind of quota for a node. `ClientQuotaManager` is the common
one, for produced and fetched bytes. `network` limits the rate of connections (`ConnectionQuotas`),
and replication has throttles of its own in `replica`.

Start reading: `client_quota_manager.py`, then `quota_managers.py`.

Only `server` imports this.
"""
