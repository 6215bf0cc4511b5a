"""Parts of the reports that are HTML pages.

A page is one file, without separate scripts, fonts or pictures, so it can be mailed and opened
years later. Pictures are inline SVG of rectangles; their text is HTML. The colours work on light
and dark backgrounds. All text from outside goes through `escaped`, including topic names and error
reasons. The size of a page is bounded whatever it is about: `shown` takes the first entries of a
list and says how many are left out.

It is read on a telephone, on a projector and on paper. Below 40 rem a table's rows become blocks,
and each cell says its column's head. Colours under white text and beside dark pages keep 4.5 and 3
to 1. Paper gets the colours, and everything that is folded.

A page says what it is of: the time, the command, the version, how long it took and what was looked
at (`provenance`). What nobody looked at has a drawing of its own (`NOT_LOOKED_AT`), never the
colour of a state.
"""

from __future__ import annotations

import datetime
import shlex
import time
from collections.abc import Iterable, Sequence
from html import escape
from itertools import zip_longest
from typing import Final, Literal, NamedTuple, TypeVar

from kmirror import __version__

T = TypeVar("T")

GREEN: Final = "#1e8449"
RED: Final = "#c0392b"
PURPLE: Final = "#8e44ad"
NOT_LOOKED_AT: Final = "unseen"
"""The CSS class of what nobody looked at: stripes."""
MAX_UNFOLDED: Final = 200
"""Number of sections that a page shows in full."""
MAX_NAMED: Final = 20_000
"""Number of lines for entries that have no section."""
MAX_CELLS: Final = 2_000
CELLS_IN_A_ROW: Final = 50
_STYLE: Final = """
:root{color-scheme:light dark;--line:#8884;--soft:#8881}
body{font:15px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:75rem;padding:0 1rem}
h1{font-size:1.5rem;margin:0}h2{font-size:1.1rem;margin:2rem 0 .5rem}
.verdict{border-left:.5rem solid;padding:.75rem 1rem;margin:1rem 0;background:var(--soft);overflow-wrap:anywhere}
.equal,.sound{border-color:#1e8449}.different{border-color:#c0392b}.error{border-color:#8e44ad}
td .equal,td .different,td .error,td .sound{border-left-width:.4rem;border-left-style:solid;padding-left:.4rem}
table{border-collapse:collapse;width:100%}th,td{text-align:left;padding:.35rem .6rem;border-bottom:1px solid var(--line);vertical-align:top;overflow-wrap:anywhere}
th{font-weight:600;white-space:nowrap}.pictured td:last-child{width:40%}
.kind{display:inline-block;padding:0 .5rem;border-radius:.6rem;color:#fff;white-space:nowrap}
.cards{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(22rem,100%),1fr));gap:1.5rem}figure{margin:0}figcaption{font-weight:600;margin:.5rem 0}
.legend{display:flex;flex-wrap:wrap;gap:.25rem 1rem;margin:.25rem 0;padding:0;list-style:none}.legend i{display:inline-block;width:.8rem;height:.8rem;margin-right:.3rem}
.unseen{background:repeating-linear-gradient(45deg,#8886 0 2px,transparent 2px 6px)}
.lane{display:grid;grid-template-columns:minmax(8rem,18rem) 1fr;gap:0 .75rem;margin:.2rem 0;align-items:center;overflow-wrap:anywhere}
.axis{display:flex;justify-content:space-between;font-size:.8em;opacity:.7}
.pair{display:grid;grid-template-columns:1fr 1fr;gap:1rem;margin:.5rem 0 1rem}.pair>div{background:var(--soft);padding:.5rem .75rem;overflow-wrap:anywhere}
dl{display:grid;grid-template-columns:max-content 1fr;gap:0 .75rem;margin:.25rem 0}dt{opacity:.7}dd{margin:0}
dd{overflow-wrap:anywhere}dd.changed{font-weight:700}svg{display:block;width:100%;background:var(--soft)}svg.unseen{background:repeating-linear-gradient(45deg,#8886 0 2px,transparent 2px 6px)}
details{border-bottom:1px solid var(--line);padding:.4rem 0}details details{margin-left:1rem}summary{cursor:pointer;overflow-wrap:anywhere}code{font-size:.9em}
pre{background:var(--soft);padding:.8rem;white-space:pre-wrap;overflow-wrap:anywhere}.timed td:first-child{white-space:nowrap}
.made{margin-top:3rem;font-size:.9em}
@media (max-width:40rem){
body{margin:1rem auto}thead{display:none}
table,tbody,tr,td{display:block;width:auto}.pictured td:last-child{width:auto}
tr{border-bottom:1px solid var(--line);padding:.4rem 0}td{border:0;padding:.1rem 0}td:empty{display:none}
td[data-head]:not([data-head=""])::before{content:attr(data-head) ": ";font-weight:600}
.pair,.lane,dl{grid-template-columns:1fr}
}
@media print{
:root{color-scheme:light}*{print-color-adjust:exact;-webkit-print-color-adjust:exact}
body{margin:0;max-width:none}tr,figure,.verdict,.lane{break-inside:avoid}h2{break-after:avoid}
details::details-content{content-visibility:visible;display:block}
}
"""


class Share(NamedTuple):
    """A part of a whole, with the same colour everywhere on the page."""

    label: str
    number: int
    colour: str


class Rect(NamedTuple):
    """A rectangle of a lane, which is 1,000 units wide; height 0 is the lane's whole height."""

    x: float
    width: float
    colour: str
    title: str
    y: float = 0
    height: float = 0


class Mark(NamedTuple):
    """A range of offsets, including `last`, that is marked with a colour and a title."""

    first: int
    last: int
    colour: str
    title: str


def escaped(text: object) -> str:
    """Returns text that is safe as an element's text and in a quoted attribute."""
    return escape(str(text), quote=True)


def html_page(title: str, *parts: str) -> str:
    """Returns the whole file. `parts` are markup; empty ones are left out."""
    body = "\n".join(part for part in parts if part)
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">\n'
        f"<title>{escaped(title)}</title><style>{_STYLE}</style></head><body>\n{body}\n</body></html>\n"
    )


class Provenance(NamedTuple):
    """What a page is of."""

    made_at: str
    command: str
    version: str
    duration_s: float

    @classmethod
    def of(cls, command: Sequence[str], began: float) -> Provenance:
        """Returns that of a command that began at `began` on the monotonic clock."""
        now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
        return cls(now, shlex.join(command), __version__, time.monotonic() - began)


def provenance(made: Provenance, looked_at: str) -> str:
    """Returns the last part of a page; `looked_at` says what was read or compared, and how much."""
    words = made.command.split()
    if "--output" in words and "--full" not in words:
        looked_at += "; segments that an earlier run with this --output had read were not read again"
    rows = (
        ("Made", made.made_at),
        ("Command", made.command),
        ("kmirror", made.version),
        ("Took", f"{made.duration_s:.1f} s"),
        ("Looked at", looked_at),
    )
    return f'<dl class="made">{"".join(f"<dt>{name}</dt><dd>{escaped(value)}</dd>" for name, value in rows)}</dl>'


def verdict_box(status: str, sentence: str, summary: str) -> str:
    """Returns the box at the top of a page.

    `status` is a CSS class: equal, sound, different, error.
    """
    return f'<div class="verdict {status}"><strong>{escaped(sentence)}</strong><br>{escaped(summary)}</div>'


def badge(text: str, colour: str) -> str:
    return f'<span class="kind" style="background:{colour}">{escaped(text)}</span>'


def status_text(status: str, text: str) -> str:
    return f'<span class="{status}">{escaped(text)}</span>'


def table(heads: Sequence[str], rows: Iterable[Sequence[str]], *, layout: Literal["", "pictured", "timed"] = "") -> str:
    """Returns a table; empty without rows. Without `heads` it has no head row.

    The cells of `rows` are markup. The last column of "pictured" holds pictures; the first one of
    "timed" is short, and not wrapped.
    """
    named = [f' data-head="{escaped(head)}"' for head in heads]
    made = "".join(f"<tr>{''.join(f'<td{head}>{cell}</td>' for head, cell in zip_longest(named, row, fillvalue=''))}</tr>" for row in rows)
    head = f"<thead><tr>{''.join(f'<th>{escaped(each)}</th>' for each in heads)}</tr></thead>" if heads else ""
    kind = f' class="{layout}"' if layout else ""
    return f"<table{kind}>{head}<tbody>{made}</tbody></table>" if made else ""


def details(summary: str, inside: str, *, is_open: bool = False, name: str | None = None) -> str:
    """Returns a part that a click unfolds.

    `summary` and `inside` are markup; `name` is the target of links.
    """
    anchor = f' id="{escaped(name)}"' if name else ""
    return f"<details{anchor}{' open' if is_open else ''}><summary>{summary}</summary>{inside}</details>"


def shown(rows: Sequence[T], limit: int, what: str) -> tuple[Sequence[T], str]:
    """Returns the first `limit` rows, and a sentence on the others."""
    left = len(rows) - limit
    return rows[: max(limit, 0)], f"<p>... and {left:,} more {escaped(what)}, counted but not shown</p>" if left > 0 else ""


# pictures
def figure(title: str, picture: str) -> str:
    return f"<figure><figcaption>{escaped(title)}</figcaption>{picture}</figure>"


def stacked_bar(shares: Sequence[Share]) -> str:
    """Returns one bar of all shares, each at least visible, and a legend with the numbers."""
    shares = [share for share in shares if share.number]
    total = sum(share.number for share in shares)
    widths = [max(1000 * share.number / total, 4) for share in shares]
    rects, x = [], 0.0
    for share, width in zip(shares, (1000 * width / sum(widths) for width in widths)):
        rects.append(_rect(x, width, 20, share.colour, f"{share.label}: {share.number:,}"))
        x += width
    named = ((f"{share.label} {share.number:,}", share.colour) for share in shares)
    return f"{_svg(1000, 20, rects, height='20px')}{legend(named)}"


def legend(entries: Iterable[tuple[str, str]]) -> str:
    """Returns the legend of a picture; an entry is its text and its colour, or NOT_LOOKED_AT."""
    items = "".join(f"<li>{_swatch(colour)}{escaped(text)}</li>" for text, colour in entries)
    return f'<ul class="legend">{items}</ul>'


def _swatch(colour: str) -> str:
    return f'<i class="{colour}"></i>' if colour == NOT_LOOKED_AT else f'<i style="background:{colour}"></i>'


def lane(name: str, rects: Sequence[Rect], *, height: int = 16) -> str:
    """Returns a named row of a picture, 1,000 units wide; stripes where no rectangle is."""
    drawn = [_rect(one.x, one.width, one.height or height, one.colour, one.title, y=one.y) for one in rects]
    return f'<div class="lane"><span>{escaped(name)}</span>{_svg(1000, height, drawn, height=f"{height}px", kind=NOT_LOOKED_AT)}</div>'


def axis(*labels: str) -> str:
    """Returns the labels below a picture, at equal distances."""
    return f'<div class="axis">{"".join(f"<span>{escaped(label)}</span>" for label in labels)}</div>'


def bars(shares: Sequence[Share]) -> str:
    """Returns a bar for each share; the longest fills the width."""
    most = max((share.number for share in shares), default=0) or 1
    return table(
        ("Kind", "Count", ""),
        [
            (
                badge(share.label, share.colour),
                f"{share.number:,}",
                _svg(
                    1000,
                    14,
                    [_rect(0, max(1000 * share.number / most, 3), 14, share.colour, f"{share.label}: {share.number:,}")],
                    height="14px",
                ),
            )
            for share in shares
        ],
        layout="pictured",
    )


def cells(items: Sequence[tuple[str, str]]) -> str:
    """Returns rows of squares, one for each (colour, title).

    Of more than MAX_CELLS items several share a square, which has the colour of the first of them:
    the worst, if the items are sorted that way.
    """
    step = -(-len(items) // MAX_CELLS) or 1
    squares = []
    for number, at in enumerate(range(0, len(items), step)):
        row, column = divmod(number, CELLS_IN_A_ROW)
        colour, title = items[at]
        more = f" and {min(step, len(items) - at) - 1:,} more" if step > 1 else ""
        squares.append(_rect(10 * column, 9, 9, colour, title + more, y=10 * row))
    rows = -(-len(squares) // CELLS_IN_A_ROW) or 1
    return _svg(10 * CELLS_IN_A_ROW, 10 * rows, squares, is_stretched=False)


def offsets_bar(
    start: int, end: int, lanes: Sequence[tuple[str, int, int]], marks: Iterable[Mark], *, compared_from: int | None = None
) -> str:
    """Returns a bar of the offsets from `start` to below `end`, left to right.

    Each log has a lane: (name, first offset, end); below `compared_from` it is a thin line, because
    nobody compared it. The marks go across the lanes, each at least visible.
    """
    span = max(end - start, 1)
    height = 4 + 12 * max(len(lanes), 1)
    rects = []
    for number, (name, first, last) in enumerate(lanes):
        begin = first if compared_from is None else min(max(first, compared_from), last)
        for low, high, size, words in ((first, begin, 2, ", not compared"), (begin, last, 10, "")):
            if high > low:
                title = f"{name}: offsets {low} to {high - 1}{words}"
                rects.append(_rect(*_extent(low, high, start, span, least=1), size, "#8888", title, y=3 + 12 * number + (10 - size) / 2))
    placed: dict[tuple[float, float], dict[str, Mark]] = {}
    for mark in marks:
        x, width = _extent(mark.first, mark.last + 1, start, span, least=3)
        placed.setdefault((round(x, 1), round(width, 1)), {}).setdefault(mark.colour, mark)
    widest_first = sorted(placed.items(), key=lambda one: -one[0][1])  # narrow marks lie on top
    for (x, width), stacked in widest_first:  # marks at the same place share its height
        share = height / len(stacked)
        rects += [_rect(x, width, share, mark.colour, mark.title, y=share * row) for row, mark in enumerate(stacked.values())]
    return _svg(1000, height, rects, height=f"{height}px") + axis(f"{start:,}", f"{end:,}")


def _extent(first: int, end: int, start: int, span: int, *, least: float) -> tuple[float, float]:
    """Returns (x, width) of offsets on a bar 1,000 wide."""
    x = min(max(1000 * (first - start) / span, 0.0), 1000 - least)
    return x, min(max(1000 * (end - max(first, start)) / span, least), 1000 - x)


def _rect(x: float, width: float, height: float, colour: str, title: str, *, y: float = 0) -> str:
    place = f'x="{x:.1f}" y="{y:g}" width="{width:.1f}" height="{height:g}"'
    return f'<rect {place} fill="{colour}"><title>{escaped(title)}</title></rect>'


def _svg(width: int, height_units: int, rects: Sequence[str], *, height: str = "", is_stretched: bool = True, kind: str = "") -> str:
    style = f' style="height:{height}"' if height else ""
    stretch = ' preserveAspectRatio="none"' if is_stretched else ""
    named = f' class="{kind}"' if kind else ""
    return f'<svg{named} viewBox="0 0 {width} {height_units}"{stretch}{style} role="img">{"".join(rects)}</svg>'
