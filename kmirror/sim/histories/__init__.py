"""Histories: what is played in the simulator, each with a name (`kmirror sim --list`).

A history is an `async def (stage)` and a `Setting`: the stage that it is played on, the rules that
judge it, the faults in between. `registry` has all of them by name. Here are the disasters, by what
they are about; storms, which draw what happens, are in `sim.storm` (clusters of one node),
`sim.fleet_storm` (one cluster of brokers) and `sim.mirror_storm` (two of them with mirrors).

    alignment failover                           clusters of one node, which begin with `single_nodes`
    replicas disks sources states compaction     fleets of brokers with mirrors

What happened, which the rules look at, is a `History` of events (`sim.events`).
"""
