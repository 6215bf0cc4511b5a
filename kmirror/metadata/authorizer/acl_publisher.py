"""Feeds an authorizer with the ACLs of the metadata (Kafka's `AclPublisher`); every node has its
own."""

from __future__ import annotations

from kmirror.metadata.authorizer.standard_authorizer import StandardAuthorizer
from kmirror.metadata.delta import MetadataDelta
from kmirror.metadata.image import MetadataImage
from kmirror.metadata.loader import LoaderManifest, LoaderManifestType


class AclPublisher:
    """With `waits_for_load` the owner itself says when the first load is over (a controller, which
    replays its log batch by batch)."""

    name = "AclPublisher"

    def __init__(self, authorizer: StandardAuthorizer, *, waits_for_load: bool = False) -> None:
        self._authorizer = authorizer
        self._waits_for_load = waits_for_load

    def on_metadata_update(self, delta: MetadataDelta, image: MetadataImage, manifest: LoaderManifest) -> None:
        if manifest.type is LoaderManifestType.SNAPSHOT:
            self._authorizer.load_snapshot(image.acls)
        else:
            for acl_id, acl in delta.changed_acls.items():
                if acl is None:
                    self._authorizer.remove_acl(acl_id)
                else:
                    self._authorizer.add_acl(acl_id, acl)
        if not self._waits_for_load:
            self._authorizer.complete_initial_load()
