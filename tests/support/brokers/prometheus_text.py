"""Holds a text for Prometheus against its format: names, types, and one value for each series."""

from __future__ import annotations

import re

_SAMPLE = re.compile(r'(?P<name>[a-zA-Z_:][a-zA-Z0-9_:]*)(?P<labels>\{(?:[a-zA-Z_][a-zA-Z0-9_]*="(?:[^"\\]|\\.)*",?)+\})? (?P<value>\S+)')


def check_exposition(text: str) -> None:
    """AssertionError for a line that is none, a series without HELP and TYPE right before it, a
    series that comes twice, and a label that comes twice.
    """
    described: list[tuple[str, str]] = []
    family, seen = "", set[tuple[str, str]]()
    assert text.endswith("\n")
    for line in text.splitlines():
        if line.startswith("# "):
            _, word, name, rest = line.split(" ", 3)
            assert rest and (word != "TYPE" or rest in ("counter", "gauge")), line
            described.append((word, name))
            continue
        sample = _SAMPLE.fullmatch(line)
        assert sample is not None, f"no sample: {line}"
        float(sample["value"])
        if sample["name"] != family:
            family = sample["name"]
            assert described[-2:] == [("HELP", family), ("TYPE", family)], f"{family} is not described, or comes in two parts"
        labels = sample["labels"] or ""
        names = re.findall(r'([a-zA-Z_][a-zA-Z0-9_]*)="', labels)
        assert len(set(names)) == len(names), line
        assert (family, labels) not in seen, f"twice: {line}"
        seen.add((family, labels))
    names_described = [name for word, name in described if word == "TYPE"]
    assert len(set(names_described)) == len(names_described), "a series is described twice"
