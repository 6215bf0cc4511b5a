"""README.md as a package registry shows it: without what only a checkout can show.

A registry shows one page. A link of README.md to a file of the repository would lead nowhere there,
and its picture would be a broken one. So the picture is left out, a link to a file becomes the
file's name, and a sentence says where the files are. Links to the web stay.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

_PICTURE = re.compile(r"^!\[[^\]]*\]\((?!https?:)[^)]*\)\n\n?", re.MULTILINE)
_LINK = re.compile(r"\[(?P<text>[^\]]+)\]\((?!https?:)(?P<file>[^)#]+)(?:#[^)]*)?\)")
_TITLE_ENDS = "\n\n"
WHERE_FILES_ARE = (
    "The files that this page names (`docs/...`, `Makefile`) are in the project's repository; its\n"
    "documents are in the source distribution, too.\n"
)


def registry_readme(text: str) -> str:
    """Returns README.md's text for a page that has no files beside it."""
    title, rest = _PICTURE.sub("", text).split(_TITLE_ENDS, 1)
    return f"{title}\n\n{_LINK.sub(_named, rest).rstrip()}\n\n{WHERE_FILES_ARE}"


def _named(link: re.Match[str]) -> str:
    text, file = link["text"], link["file"]
    return f"`{file}`" if text in file else f"{text} (`{file}`)"


class ReadmeHook(MetadataHookInterface):
    """Hatchling asks it for the fields that pyproject.toml calls dynamic."""

    def update(self, metadata: dict[str, Any]) -> None:
        text = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        metadata["readme"] = {"content-type": "text/markdown", "text": registry_readme(text)}
