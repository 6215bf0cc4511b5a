"""Two datacenters of two clusters each: one copy crosses the line between them."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from scene import check, clusters, copied, counts, mirror_maker, texts

FILE = Path(__file__).with_name("mm2.properties")

with clusters("west", "east", "west-reports", "east-reports") as everywhere:
    west, east, west_reports, east_reports = everywhere
    west.produce("orders", texts("order in west", 30))
    east.produce("orders", texts("order in east", 20))
    with (
        mirror_maker(FILE, everywhere, "--clusters", "west", "west-reports") as in_west,
        mirror_maker(FILE, everywhere, "--clusters", "east", "east-reports") as in_east,
    ):
        copied(east, "orders", west_reports, "west.east.orders")
        copied(west, "orders", west_reports, "west.orders")
        copied(west, "orders", east_reports, "east.west.orders")
        copied(east, "orders", east_reports, "east.orders")
        counts(*everywhere)
        print()
        for place, program in (("west", in_west), ("east", in_east)):
            (line,) = (line for line in program.log.splitlines() if "MirrorMaker started with" in line)
            flows = line.partition("started with ")[2].partition(" (")[0].split(", ")
            print(f"the program in {place} runs {' and '.join(sorted(flows))}")
            check(sum(flow in ("west->east", "east->west") for flow in flows) == 1, "one flow crosses")
