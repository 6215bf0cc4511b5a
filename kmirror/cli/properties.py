"""Java properties files, as far as server and client configurations use them."""

from __future__ import annotations

from pathlib import Path

from kmirror.common.errors import ConfigError
from kmirror.storage.java_properties import decode_properties


def read_properties(path: Path) -> dict[str, str]:
    """The settings of a properties file; ConfigError, naming the file, when it cannot be read."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror or error}") from error
    return decode_properties(str(path), data)
