"""kmirror: Kafka's broker, log and cluster mirroring (KIP-1279), as a laboratory.

    from kmirror import EmbeddedCluster

    with EmbeddedCluster() as cluster:
        print(cluster.bootstrap_servers)

Public are the names below, `kmirror.spark`'s, the pytest plugin (`pydoc kmirror.pytest_plugin`) and
the command line tools; everything else may change.

    EmbeddedCluster   a Kafka cluster inside a test or a notebook
    Security          how such a cluster is secured
    AdminClient       an operator's calls to any Kafka cluster, as coroutines
    KmirrorError      the root of all exceptions that kmirror raises on purpose

`import kmirror` loads nothing heavy: the names are loaded when they are first used (PEP 562). Each
package below says in its `__init__.py` what it is for and who may import it. To follow a record,
start at `kmirror.server` (`KafkaApis`); to follow a mirror, at `kmirror.mirror`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kmirror.admin.admin_client import AdminClient
    from kmirror.common.errors import KmirrorError
    from kmirror.embedded import EmbeddedCluster
    from kmirror.embedded_security import Security

__version__ = "0.1.0"
__all__ = ["AdminClient", "EmbeddedCluster", "KmirrorError", "Security", "__version__"]

_LAZY = {
    "AdminClient": "kmirror.admin.admin_client",
    "EmbeddedCluster": "kmirror.embedded",
    "KmirrorError": "kmirror.common.errors",
    "Security": "kmirror.embedded_security",
}


def __getattr__(name: str) -> Any:
    module = _LAZY.get(name)
    if module is None:
        raise AttributeError(f"module 'kmirror' has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(module), name)


def __dir__() -> list[str]:
    return sorted(__all__)
