"""kmirror as its users have it: a wheel in a virtual environment of its own, without the checkout.

An editable install finds every file of the repository, has no list of its own files, and stands in
an environment with everything that the tests need. So what a wheel lacks, what it declares and what
an extra brings only shows where the wheel is installed alone.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from support.waiting import PROGRAM_S

ROOT: Final = Path(__file__).resolve().parents[3]


def built(folder: Path) -> dict[str, Path]:
    """Builds both distributions of this checkout; returns them as `wheel` and `sdist`."""
    _run([sys.executable, "-m", "hatchling", "build", "-d", str(folder)], cwd=ROOT)
    (wheel,), (sdist,) = folder.glob("*.whl"), folder.glob("*.tar.gz")
    return {"wheel": wheel, "sdist": sdist}


class InstalledWheel:
    """A virtual environment with a wheel, its extras and other packages; what runs in it does not
    see the checkout.
    """

    def __init__(self, folder: Path, wheel: Path, *, extras: Sequence[str] = (), others: Sequence[str] = ()) -> None:
        self.binaries = folder / "venv" / "bin"
        self.python = self.binaries / "python"
        self._wheel = wheel
        _run([sys.executable, "-m", "venv", "--without-pip", str(folder / "venv")], cwd=folder)
        self.install(extras=extras, others=others)

    def install(self, *, extras: Sequence[str] = (), others: Sequence[str] = ()) -> None:
        """Adds extras of the wheel, and other packages."""
        wanted = f"{self._wheel}[{','.join(extras)}]" if extras else str(self._wheel)
        options = ["--quiet", "--disable-pip-version-check", "--no-warn-script-location"]
        _run([sys.executable, "-m", "pip", "--python", str(self.python), "install", *options, wanted, *others], cwd=self.binaries)

    @property
    def environment(self) -> dict[str, str]:
        """For a program that shall find this environment's tools, and neither the checkout nor what
        the tests around it set.
        """
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "PYTEST", "SPARK", "VIRTUAL_ENV"))}
        return kept | {"PATH": f"{self.binaries}{os.pathsep}{os.environ['PATH']}"}

    def run(self, *command: str, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
        """Runs one of its programs to the end."""
        program, *arguments = command
        line = [str(self.binaries / program), *arguments]
        return subprocess.run(
            line, cwd=cwd, env=self.environment | environment, capture_output=True, text=True, timeout=PROGRAM_S, check=False
        )

    def run_python(self, program: str, *, cwd: Path, **environment: str) -> str:
        """Runs a Python program that must succeed; returns what it printed."""
        done = self.run("python", "-c", program, cwd=cwd, **environment)
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
        return done.stdout


def _run(command: list[str], *, cwd: Path) -> None:
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=PROGRAM_S, check=False)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
