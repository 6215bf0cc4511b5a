"""Apache's classes of MirrorMaker 2 and Connect, asked line by line through `MirrorMakerRules.java`,
`ConnectGroupRules.java` and other programs.
"""

from __future__ import annotations

import os
import pathlib
import shutil
import subprocess
from collections.abc import Callable, Sequence

from support.peers.peers import ROOT, TOOL_JVM, java, kafka_classpath, require
from support.waiting import PROGRAM_S, REACHED_S

PROGRAMS = ROOT / "tests" / "interop" / "mirrormaker"
MIRROR_MAKER_RULES = "org.apache.kafka.connect.mirror.MirrorMakerRules"
CONNECT_GROUP_RULES = "org.apache.kafka.connect.runtime.distributed.ConnectGroupRules"
Question = Sequence[object]
Apache = Callable[[Sequence[Question]], list[str]]


def compiled(classes: pathlib.Path, main_class: str = MIRROR_MAKER_RULES) -> Apache:
    """Returns what asks Apache's classes; one answer a question."""
    _compile(PROGRAMS / f"{main_class.rpartition('.')[2]}.java", classes)

    def ask(questions: Sequence[Question]) -> list[str]:
        return _answers(main_class, classes, ["\t".join(map(str, question)) for question in questions])

    return ask


def run_program(program: pathlib.Path, classes: pathlib.Path, lines: Sequence[str]) -> list[str]:
    """Compiles a program, and returns its answer to each line."""
    _compile(program, classes)
    return _answers(program.stem, classes, lines)


def _compile(program: pathlib.Path, classes: pathlib.Path) -> None:
    compiler = shutil.which("javac") or shutil.which("javac", path=str(pathlib.Path(os.environ.get("JAVA_HOME", "/")) / "bin"))
    require(compiler, "no JDK (javac) on the PATH and no JAVA_HOME")
    command = [str(compiler), "-proc:none", "-cp", kafka_classpath(), "-d", str(classes), str(program)]
    subprocess.run(command, check=True, capture_output=True, timeout=REACHED_S)


def _answers(main_class: str, classes: pathlib.Path, lines: Sequence[str]) -> list[str]:
    script = "".join(f"{line}\n" for line in lines)
    assert script.count("\n") == len(lines)
    command = [java(), *TOOL_JVM, "-cp", f"{classes}{os.pathsep}{kafka_classpath()}", main_class]
    done = subprocess.run(command, input=script, capture_output=True, text=True, encoding="utf-8", timeout=PROGRAM_S, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    answers = [line for line in done.stdout.split("\n")[:-1] if not line.startswith(("SLF4J", "log4j", "ERROR StatusLogger"))]
    assert len(answers) == len(lines), done.stdout[:2000]
    return answers


def compare(questions: Sequence[Question], theirs: Sequence[str], ours: Sequence[str]) -> None:
    wrong = [f"{question}: Kafka {a!r}, kmirror {b!r}" for question, a, b in zip(questions, theirs, ours, strict=True) if a != b]
    assert not wrong, f"{len(wrong)} of {len(questions)}:\n" + "\n".join(wrong[:10])
