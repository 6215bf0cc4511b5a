"""`host:port` as text and back; IPv6 hosts stand in brackets."""

from __future__ import annotations

from kmirror.common.errors import KmirrorError


def address_text(host: str, port: int) -> str:
    """Returns `host:port` for a host given without brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def parse_bootstrap_servers(text: str) -> list[tuple[str, int]]:
    """Parses `host:port,...`; an empty host is localhost. Raises KmirrorError for anything else."""
    servers = []
    for entry in (part.strip() for part in text.split(",")):
        host, separator, port = entry.rpartition(":")
        if not separator or not port.isdigit() or not 0 < int(port) < 65_536:
            raise KmirrorError(f"'{entry}' is not host:port")
        servers.append((host.strip("[]") or "localhost", int(port)))
    return servers
