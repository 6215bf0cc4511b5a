"""Java properties files, as far as server and client configurations use them."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from kmirror.common.errors import ConfigError
from kmirror.network.config_providers import ConfigProviders, is_provider_config, resolve_own
from kmirror.runtime.os_files import OsFileSystem
from kmirror.storage.java_properties import decode_properties

UTF_16: Final = (b"\xff\xfe", b"\xfe\xff")
"""What such a file begins with. Read as if it were not, it has no property that anybody knows."""


def read_properties(path: Path) -> dict[str, str]:
    """Returns the settings of a file; ConfigError, naming the file, if it cannot be read."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror or error}") from error
    if data.startswith(UTF_16):
        raise ConfigError(f"{path} is in UTF-16: a file of properties is in ISO-8859-1 or UTF-8")
    return decode_properties(str(path), data)


def read_node_properties(path: Path) -> dict[str, str]:
    """Returns a node's properties, resolved by their own `config.providers`."""
    return resolve_own(read_properties(path), OsFileSystem(), os.environ)


def worker_references(props: Mapping[str, str]) -> Callable[[Mapping[str, str]], Mapping[str, str]]:
    """Returns what replaces references in a Connect worker's properties, and in its connectors'.

    Without `config.providers` they stay as they are, as in Kafka: who may use the REST interface is not
    the user who runs the process, and could read any file.
    """
    providers = ConfigProviders.from_props(props, OsFileSystem(), os.environ)
    return providers.resolve if providers.providers else dict


def read_mirror_configs(path: Path) -> dict[str, str]:
    """Returns the mirror's configs from a file for --mirror-config or --reverse-config.

    The file's `config.providers` are left out: they are the command's, and brokers have their own.
    """
    return {name: value for name, value in read_properties(path).items() if not is_provider_config(name)}
