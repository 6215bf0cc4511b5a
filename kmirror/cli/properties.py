"""Java properties files, as far as server and client configurations use them."""

from __future__ import annotations

import os
from pathlib import Path

from kmirror.common.errors import ConfigError
from kmirror.network.config_providers import is_provider_config, resolve_own
from kmirror.runtime.os_files import OsFileSystem
from kmirror.storage.java_properties import decode_properties


def read_properties(path: Path) -> dict[str, str]:
    """Returns the settings of a file; ConfigError, naming the file, if it cannot be read."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror or error}") from error
    return decode_properties(str(path), data)


def read_node_properties(path: Path) -> dict[str, str]:
    """Returns a node's properties, resolved by their own `config.providers`."""
    return resolve_own(read_properties(path), OsFileSystem(), os.environ)


def read_mirror_configs(path: Path) -> dict[str, str]:
    """Returns the mirror's configs from a file for --mirror-config or --reverse-config.

    The file's `config.providers` are left out: they are the command's, and brokers have their own.
    """
    return {name: value for name, value in read_properties(path).items() if not is_provider_config(name)}
