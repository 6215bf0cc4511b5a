"""The shards of the group, share and transaction coordinators, outside a broker."""
