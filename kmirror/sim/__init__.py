"""The simulator: the whole program on virtual time, an in-memory network and disks that forget; one seed is one disaster.

`sim.loop.SimLoop`, `sim.network.SimNetwork`, `sim.disk.SimDisk` and, tying them together, `sim.runtime.SimWorld`: start
reading there. What is simulated is the door (`runtime.api.Runtime`), so everything above it runs unchanged.
"""
