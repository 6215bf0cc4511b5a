"""How long tests wait: every limit of a "wait until" stands here, and none of them is an assertion
about speed.

A test that waits for a state, an acknowledgement or the end of a program has it within a second or
two on an idle machine. The limit only ends a wait that would never end, so it costs nothing to be
generous, and a limit that a loaded machine reaches (three workers on two cores, beside somebody
else's load) is a failure that says nothing. What must be fast is measured in `benches/`.

What a test waits for in vain on purpose (nothing may come for a while) is no limit and stays where
it is.
"""

from __future__ import annotations

from typing import Final

REACHED_S: Final = 120
"""Until a state is reached, a record acknowledged, an admin call answered, a process gone."""
PROGRAM_S: Final = 600
"""Until a program that does much (the demo, the README's examples) has ended; also how long one
test may take (`timeout` in pyproject).
"""

OPEN_TRANSACTION_MS: Final = 900_000
"""transaction.timeout.ms of a transaction that a test leaves open for as long as it needs: the most that
brokers allow by default. A client's own minute can be over before a busy machine is ready.
"""
