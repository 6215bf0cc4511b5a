"""The outside world: time, chance, files, tasks and the network come in through this room alone.

`api.py` is the contract: `Runtime`, `Connection`, `TaskScope`. `asyncio_runtime.py` implements it
on asyncio and the operating system. The simulator implements the same contract (`sim.runtime`), so
the code above runs unchanged on virtual time.

In: requests for a timer, a task, a file, a connection, or a worker thread. Out: callbacks and
awaitables, all on the loop's thread.

Start reading: `api.py`, then `asyncio_runtime.py`; `os_files.py` for files, `sockets.py` for
connections, `supervision.py` for tasks that live as long as their owner.

The rooms from `network` upwards may import this one; `spark` imports `system_ports.py` alone, so
that an executor loads no broker. Rooms below it get what they need as the Protocols of
`common.ports`. Outside this room ruff bans `time`, `random`, `socket`, `threading` and the calls of
`os` that touch files (pyproject.toml lists the few exceptions).
"""
