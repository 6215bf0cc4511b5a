"""The simulator runs the whole program on virtual time, an in-memory network, and disks that
forget. One seed is one run.

Only `runtime.api.Runtime` is simulated, so everything above it runs unchanged: `loop`, `network`
and `disk`, tied together by `runtime.SimWorld`. Start reading there.

A run plays a history (`histories.registry` has all of them by name) on a stage, which owns the
nodes, the clients and the faults: `stage`, `storm`, `fleet_stage`, `mirror_stage`. The nodes are in
`server`, `cluster` and `fleet`. Faults are declared in `fault_kinds`, act on a `fault_scene`, and
are drawn by `faults`. What happens becomes a `History` of `events`: those about logs come from the
disks (`log_watch`), those about clients from the clients. The checkers judge that history and
nothing else: `checkers`, `fleet_checkers`, `mirror_checkers`. `ablations` switch a safeguard off,
to show that a checker notices. `campaign` runs many seeds, and `ledger` remembers which were run.

From outside, import `histories.registry` and `campaign` to run seeds, and `runtime` and `loop` to
simulate a program of your own.
"""
