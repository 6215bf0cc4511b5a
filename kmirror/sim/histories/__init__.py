"""The histories that the simulator plays; each has a name (`kmirror sim --list`).

A history is an `async def (stage)` with a `Setting`: the stage it is played on, the rules that
judge it, and the faults that happen meanwhile. `registry` has all histories by name. The rooms here
hold the named disasters, one room for each subject. Storms draw what happens from the seed; they
are in `sim.storm` (clusters of one node), `sim.fleet_storm` (one cluster of several brokers) and
`sim.mirror_storm` (two such clusters with mirrors).

    alignment failover                           clusters of one node, as `single_nodes` sets up
    replicas disks sources states compaction     fleets of brokers with mirrors

Two more subjects lie beside the storm: `sim.mirror_readers` and `sim.mirror_share_groups`. What
happened in a run is a `History` of events (`sim.events`), which the rules judge.
"""
