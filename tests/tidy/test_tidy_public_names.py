"""What `pydoc` and a traceback show of the public names: a sentence for each, the signature that a
caller writes, and a repr that tells one object from another without a secret.
"""

from __future__ import annotations

import inspect
import pydoc
from collections.abc import Iterator

import pytest

import kmirror
import kmirror.spark
from kmirror import AdminClient, EmbeddedCluster, KmirrorError, Security
from kmirror.runtime.asyncio_runtime import AsyncioRuntime, run

CLASSES = (AdminClient, EmbeddedCluster, Security, KmirrorError)


def public_members() -> Iterator[tuple[str, object]]:
    for one in CLASSES:
        for name in vars(one):
            member = getattr(one, name)
            is_field = inspect.isdatadescriptor(member) and not isinstance(member, property)
            if not name.startswith("_") and not is_field:
                yield f"{one.__name__}.{name}", member


def test_every_public_name_says_what_it_is_for() -> None:
    names = [(name, getattr(kmirror, name)) for name in kmirror.__all__ if name != "__version__"]
    names += [(f"spark.{name}", getattr(kmirror.spark, name)) for name in kmirror.spark.__all__]
    members = list(public_members())
    assert len(members) > 70, "the members of the classes were not found"
    assert [name for name, thing in [*names, *members] if not (inspect.getdoc(thing) or "").strip()] == []


def test_the_packages_own_page_names_every_public_name() -> None:
    assert kmirror.__doc__ is not None
    assert [name for name in kmirror.__all__ if name not in kmirror.__doc__ and name != "__version__"] == []


def test_an_admin_call_shows_the_signature_that_a_caller_writes() -> None:
    """pydoc showed `create_topics(cluster: 'AdminRequests', ...)`, a parameter that nobody gives."""
    page = pydoc.plain(pydoc.render_doc(AdminClient))
    assert "create_topics(self, " in page and "AdminRequests" not in page


def test_a_cluster_says_how_large_it_is_and_where() -> None:
    cluster = EmbeddedCluster(brokers=2)
    assert repr(cluster) == "<EmbeddedCluster of 2 brokers, not running>"
    with cluster:
        assert repr(cluster) == f"<EmbeddedCluster of 2 brokers on {cluster.bootstrap_servers}>"
        cluster.kill_node(1)
        assert repr(cluster) == f"<EmbeddedCluster of 2 brokers on {cluster.bootstrap_servers}, without 2>"
        assert repr(cluster.nodes[1]) == "<EmbeddedNode 2: not running>"
    assert repr(EmbeddedCluster()) == "<EmbeddedCluster of 1 broker, not running>"


@pytest.mark.parametrize("make", [Security.sasl_plaintext, Security.sasl_ssl])
def test_a_securitys_repr_keeps_the_passwords(make) -> None:
    assert repr(make({"alice": "alice-secret"})) == f"<Security {make.__name__.upper()} SCRAM-SHA-256 for alice>"


def test_an_admin_client_says_whom_it_asks() -> None:
    async def main(runtime: AsyncioRuntime) -> str:
        async with AdminClient(runtime, [("a", 1), ("b", 2)]) as admin:
            return repr(admin)

    assert run(main) == "<AdminClient 'adminclient' of a:1,b:2>"
