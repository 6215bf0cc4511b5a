"""One root for all exceptions that are raised on purpose: what a handler names must not depend on
who raised.
"""

from __future__ import annotations

import ast
import builtins
import pathlib

import kmirror
from kmirror.common.errors import ApiException, Errors, KmirrorError
from kmirror.common.varint import VarintError

ROOT = pathlib.Path(kmirror.__file__).parent
BUILTIN_ERRORS = {name for name, value in vars(builtins).items() if isinstance(value, type) and issubclass(value, BaseException)}
OTHER_ROOTS = {
    "CpuLimitError": "nothing of a simulated node may catch it",
    "KeysNeededError": "it never leaves the comparison that raises it",
    "KmirrorError": "the root itself",
    "NodeKilledError": "nothing of a simulated node may catch it",
    "_AstrayError": "it never leaves the comparison that raises it, in which a KmirrorError is a verdict",
}


def exceptions_without_a_parent_of_ours() -> list[str]:
    """Outside of `cli`, whose errors of a command line end in its own main function."""
    found = []
    for path in sorted(ROOT.rglob("*.py")):
        if path.relative_to(ROOT).parts[0] == "cli":
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef):
                bases = [base.id for base in node.bases if isinstance(base, ast.Name)]
                if bases and all(base in BUILTIN_ERRORS for base in bases):
                    found.append(node.name)
    return found


def test_whatever_is_raised_on_purpose_is_a_kmirror_error() -> None:
    assert sorted(exceptions_without_a_parent_of_ours()) == sorted(OTHER_ROOTS)
    assert issubclass(ApiException, KmirrorError) and issubclass(VarintError, KmirrorError)


def test_the_text_of_a_wire_error_names_it() -> None:
    error = ApiException(Errors.KAFKA_STORAGE_ERROR, "disk 1 is gone")
    assert (str(error), error.message) == ("KAFKA_STORAGE_ERROR: disk 1 is gone", "disk 1 is gone")
    assert ApiException(Errors.FENCED_LEADER_EPOCH).message == Errors.FENCED_LEADER_EPOCH.message
