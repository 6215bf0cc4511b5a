"""How the reports look: colours that can be read on light and dark pages, a telephone's width, paper,
and where a page says what it is of.

No browser draws them here. The style sheet is parsed, and the colours are measured as WCAG does.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from support.logs.log_folders import batches, write_log
from support.tools.html_pages import Page

from kmirror import __version__
from kmirror.cli import demo_report, html_page, log_diff_html, verify_logs_html
from kmirror.cli.html_page import Provenance
from kmirror.cli.kmirror import main as kmirror
from kmirror.cli.log_diff import main as log_diff

LIGHT, DARK = "#ffffff", "#121212"
"""The grounds of `color-scheme: light dark`; the darker one is Chromium's."""
TEXT, PICTURE = 4.5, 3.0
"""WCAG 2's least contrasts (1.4.3 and 1.4.11)."""
TELEPHONE_PX, REM_PX = 400, 16
COLOURS = sorted(
    {html_page.GREEN, html_page.RED, html_page.PURPLE, verify_logs_html._OTHER}
    | set(log_diff_html._COLOURS.values())
    | set(verify_logs_html._COLOURS.values())
    | set(demo_report.STATE_COLOURS.values())
)


def luminance(colour: str) -> float:
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    darker, lighter = sorted((luminance(one), luminance(other)))
    return (lighter + 0.05) / (darker + 0.05)


def rules(style: str) -> list[tuple[str, dict[str, str]]]:
    """Selectors and declarations of a style sheet without media queries."""
    found = []
    for selector, body in re.findall(r"([^{}]+)\{([^{}]*)\}", style):
        pairs = (part.partition(":") for part in body.split(";") if part)
        found.append((selector.strip(), {name.strip(): value.strip() for name, _, value in pairs}))
    return found


def media(name: str) -> list[tuple[str, dict[str, str]]]:
    """The rules of one media query."""
    begin = html_page._STYLE.index(f"@media {name}{{") + len(f"@media {name}{{")
    depth, at = 1, begin
    while depth:
        depth += {"{": 1, "}": -1}.get(html_page._STYLE[at], 0)
        at += 1
    return rules(html_page._STYLE[begin : at - 1])


def everywhere() -> list[tuple[str, dict[str, str]]]:
    return rules(html_page._STYLE.partition("@media")[0])


@pytest.mark.parametrize("colour", COLOURS)
def test_white_text_can_be_read_on_a_colour_and_the_colour_is_seen_on_a_dark_page(colour: str) -> None:
    assert contrast(colour, LIGHT) >= TEXT and contrast(colour, DARK) >= PICTURE


def test_kinds_that_differ_have_colours_that_differ() -> None:
    for palette in (log_diff_html._COLOURS, verify_logs_html._COLOURS, demo_report.STATE_COLOURS):
        assert len(set(palette.values())) == len(palette)


def test_faint_text_can_be_read() -> None:
    faint = [(selector, float(body["opacity"])) for selector, body in everywhere() if "opacity" in body]
    assert faint, "no rule with an opacity was found"
    for selector, opacity in faint:
        for ground, text in ((255, 0), (18, 255)):
            part = f"{round(text * opacity + ground * (1 - opacity)):02x}"
            assert contrast(f"#{part * 3}", f"#{ground:02x}" + f"{ground:02x}" * 2) >= TEXT, selector


def test_a_telephone_gets_one_column() -> None:
    """The demonstration's values stood one character wide, and heads were cut into letters."""
    narrow = dict(media("(max-width:40rem)"))
    assert TELEPHONE_PX < 40 * REM_PX
    assert narrow["table,tbody,tr,td"]["display"] == "block" and narrow["thead"]["display"] == "none"
    assert narrow['td[data-head]:not([data-head=""])::before']["content"].startswith("attr(data-head)")
    columns = {selector for selector, body in everywhere() if "grid-template-columns" in body}
    one_column = {part for selector in narrow if "grid-template-columns" in narrow[selector] for part in selector.split(",")}
    assert columns - one_column == {".cards"}
    (cards,) = (body["grid-template-columns"] for selector, body in everywhere() if selector == ".cards")
    assert "min(22rem,100%)" in cards


def test_nothing_long_is_kept_on_one_line() -> None:
    unwrapped = {selector for selector, body in everywhere() if body.get("white-space") == "nowrap"}
    assert unwrapped == {"th", ".kind", ".timed td:first-child"}, "heads, kinds and seconds are short; all else wraps"
    wrapped = {part for selector, body in everywhere() if body.get("overflow-wrap") == "anywhere" for part in selector.split(",")}
    assert {"td", "dd", "pre", "summary", ".verdict", ".lane", ".pair>div"} <= wrapped


def test_paper_gets_colours_and_what_is_folded() -> None:
    paper = dict(media("print"))
    assert paper["*"]["print-color-adjust"] == "exact" and paper["details::details-content"]["content-visibility"] == "visible"
    assert paper["tr,figure,.verdict,.lane"]["break-inside"] == "avoid"


def test_a_cell_of_a_table_with_a_head_says_its_column() -> None:
    markup = html_page.table(("Log", "<b>"), [("a", "b"), ("c", "d")])
    assert markup.count('<td data-head="Log">') == 2 and markup.count('<td data-head="&lt;b&gt;">') == 2
    assert "data-head" not in html_page.table((), [("a", "b")])


def made_of(page: str) -> dict[str, str]:
    """What a page says that it is of."""
    (part,) = re.findall(r'<dl class="made">(.*?)</dl>', page)
    return dict(re.findall(r"<dt>(.*?)</dt><dd>(.*?)</dd>", part))


def test_a_comparison_says_when_how_and_of_what_it_was_made(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for side in "ab":
        write_log(tmp_path / side / "t-0", *batches(8))
    arguments = [str(tmp_path / "a"), str(tmp_path / "b"), "--report", str(tmp_path / "page.html"), "--json"]
    assert log_diff(arguments) == 0
    (partition,) = json.loads(capsys.readouterr().out)["partitions"]
    text = (tmp_path / "page.html").read_text()
    made = made_of(text)
    assert made["Command"] == " ".join(["kafka-log-diff", *arguments]) and made["kmirror"] == __version__
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", made["Made"]) and re.fullmatch(r"\d+\.\d s", made["Took"])
    size = partition["bytes_compared"]
    assert size > 0 and made["Looked at"] == f"{size:,} bytes of 1 partition compared equal"
    page = Page(text)
    assert page.text.index("The logs are equal.") < page.text.index(str(tmp_path / "a")), "the verdict comes first"
    assert f"1 equal; {size:,} bytes of 1 partition" in page.text


def test_a_verification_says_how_much_it_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_log(tmp_path / "data" / "t-0", *batches(8))
    (segment,) = (tmp_path / "data" / "t-0").glob("*.log")
    kmirror(["verify-logs", str(tmp_path / "data"), "--output", str(tmp_path / "out")])
    made = made_of((tmp_path / "out" / "report.html").read_text())
    assert made["Command"].startswith("kmirror verify-logs ")
    assert made["Looked at"].startswith(f"{segment.stat().st_size:,} bytes of batches in 1 segments of 1 logs")
    assert "an earlier run with this --output" in made["Looked at"]


def test_without_an_output_folder_nothing_is_said_of_earlier_runs() -> None:
    assert "earlier" not in html_page.provenance(Provenance("t", "kafka-log-diff a b", "1", 1.0), "1 byte")


def test_offsets_that_nobody_compared_are_a_thin_line() -> None:
    bar = html_page.offsets_bar(0, 100, [("A", 0, 100), ("B", 40, 100)], [], compared_from=40)
    assert re.findall(r'height="(\d+)" fill="#8888"><title>([^<]*)', bar) == [
        ("2", "A: offsets 0 to 39, not compared"),
        ("10", "A: offsets 40 to 99"),
        ("10", "B: offsets 40 to 99"),
    ]


def test_a_log_that_could_not_be_read_is_all_thin_line() -> None:
    bar = html_page.offsets_bar(0, 100, [("A", 0, 100)], [], compared_from=100)
    assert re.findall(r'height="(\d+)" fill', bar) == ["2"] and "not compared" in bar
