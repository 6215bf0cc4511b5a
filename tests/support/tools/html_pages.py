"""Reads HTML pages for tests: whether they are well formed and self-contained, their text, their
links and the geometry of their pictures.
"""

from __future__ import annotations

from html.parser import HTMLParser
from typing import Final

VOID: Final = ("meta", "br", "hr", "img", "input", "link")
KNOWN: Final = frozenset(
    [
        "html",
        "head",
        "meta",
        "title",
        "style",
        "body",
        "h1",
        "h2",
        "p",
        "code",
        "br",
        "div",
        "strong",
        "figure",
        "figcaption",
        "svg",
        "rect",
        "ul",
        "li",
        "i",
        "table",
        "thead",
        "tbody",
        "tr",
        "th",
        "td",
        "span",
        "a",
        "details",
        "summary",
        "dl",
        "dt",
        "dd",
        "small",
        "pre",
    ]
)
ATTRIBUTES: Final = frozenset(
    [
        "lang",
        "charset",
        "name",
        "content",
        "class",
        "style",
        "id",
        "href",
        "open",
        "viewbox",
        "preserveaspectratio",
        "role",
        "x",
        "y",
        "width",
        "height",
        "fill",
        "data-head",
    ]
)


class Page(HTMLParser):
    """AssertionError for what is not closed, not known (so: brought in by somebody's text), or
    reaches outside.
    """

    def __init__(self, markup: str) -> None:
        super().__init__(convert_charrefs=True)
        self.words: list[str] = []
        self.ids: list[str] = []
        self.links: list[str] = []
        self.tags: list[str] = []
        self.pictures: list[tuple[float, float]] = []
        self._open: list[str] = []
        assert markup.startswith("<!doctype html>")
        self.feed(markup)
        self.close()
        assert self._open == [], f"{self._open} are not closed"
        assert len(set(self.ids)) == len(self.ids) and set(self.links) <= {f"#{name}" for name in self.ids}

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        assert tag in KNOWN, f"<{tag}> is none of the page's"
        assert set(found) <= ATTRIBUTES, f"{set(found) - ATTRIBUTES} of <{tag}>"
        self.tags.append(tag)
        if tag not in VOID:
            self._open.append(tag)
        if "id" in found:
            self.ids.append(found["id"] or "")
        if "href" in found:
            self.links.append(found["href"] or "")
        if tag == "svg":
            _, _, width, height = map(float, (found["viewbox"] or "").split())
            self.pictures.append((width, height))
        if tag == "rect":
            x, y, width, height = (float(found[name] or 0) for name in ("x", "y", "width", "height"))
            right, bottom = self.pictures[-1]
            assert x >= 0 and y >= 0 and width > 0 and height > 0, found
            assert x + width <= right + 0.1 and y + height <= bottom + 0.1, f"{found} reaches out of {self.pictures[-1]}"

    def handle_endtag(self, tag: str) -> None:
        assert self._open and self._open[-1] == tag, f"</{tag}> while {self._open} are open"
        self._open.pop()

    def handle_data(self, data: str) -> None:
        if "style" not in self._open:
            self.words.append(data)
        else:
            assert "url(" not in data and "@import" not in data

    def unknown_decl(self, data: str) -> None:
        raise AssertionError(f"a declaration: {data}")

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())
