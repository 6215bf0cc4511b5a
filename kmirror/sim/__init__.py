"""The simulator: the whole program on virtual time, an in-memory network and disks that forget; one
seed is one run.

What is simulated is `runtime.api.Runtime`, so everything above it runs unchanged: `loop`, `network`
and `disk`, tied together by `runtime.SimWorld`. Start reading there.

A run plays a history (`histories.registry` has all of them by name) on a stage: `stage`, `storm`,
`fleet_stage`, `mirror_stage`. Faults are declared in `fault_kinds` and drawn by `faults`. What
happens becomes a `History` of `events`, and the checkers judge that alone: `checkers`,
`fleet_checkers`, `mirror_checkers`. `ablations` switch a safeguard off, to show that a checker
notices. `campaign` runs many seeds.

From outside import `histories.registry` and `campaign` to run seeds, `runtime` and `loop` to
simulate a program of your own.
"""
