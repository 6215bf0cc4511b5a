"""Draws the states of a mirrored partition into docs/RULES.md, from the table that the driver
executes.

    python tools/state_diagram.py [--check]

The diagram (Mermaid, which Git hosts show as a picture) is between two comments. `--check` changes
nothing and fails if the diagram differs from the table. Below it are the rules that change no
state, with the code that handles each.
"""

from __future__ import annotations

import pathlib
import sys

from kmirror.mirror.mirror_state_machine import ELSEWHERE, TABLE, MirrorGuard, MirrorPartitionState, Row

RULES = pathlib.Path(__file__).resolve().parent.parent / "docs" / "RULES.md"
BEGIN = "<!-- drawn by python tools/state_diagram.py -->"
END = "<!-- end of the drawing -->"


def diagram() -> str:
    """Returns the whole block, including both comments."""
    steps: dict[tuple[MirrorPartitionState, MirrorPartitionState], list[Row]] = {}
    for rows in TABLE.values():
        for row in rows:
            if row.next_state is not None:
                steps.setdefault((row.state, row.next_state), []).append(row)
    arrows = [f"    {_name(state)} --> {following.name}: {_label(rows)}" for (state, following), rows in steps.items()]
    others = [f"| {rule.number} | {rule.what} | `kmirror.mirror.{rule.by.replace(':', '.')}` |" for rule in ELSEWHERE]
    parts = [
        BEGIN,
        "```mermaid\nstateDiagram-v2\n" + "\n".join(arrows) + "\n```",
        "Rules that move no state, and the code that deals with them:",
        "| rule | what happens | dealt with by |\n|---|---|---|\n" + "\n".join(others),
        END,
    ]
    return "\n\n".join(parts)


def _name(state: MirrorPartitionState) -> str:
    return "[*]" if state is MirrorPartitionState.UNKNOWN else state.name


def _label(rows: list[Row]) -> str:
    """Returns `D3-21 mirror.name ends .removed`, and what distinguishes rows of one event."""
    texts = [f"{row.number} {row.event.value}" + ("" if row.guard is MirrorGuard.ALWAYS else f", {row.guard.value}") for row in rows]
    return "<br>".join(dict.fromkeys(text.replace(":", ",").replace(";", ",") for text in texts))


def main(arguments: list[str]) -> int:
    text = RULES.read_text()
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    drawn = f"{before}{diagram()}{after}"
    if "--check" in arguments:
        if drawn != text:
            print("docs/RULES.md: the drawing of the states is not the table's: run python tools/state_diagram.py", file=sys.stderr)
        return int(drawn != text)
    RULES.write_text(drawn)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
