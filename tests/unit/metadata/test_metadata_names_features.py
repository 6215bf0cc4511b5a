"""Mirror names and associations; feature levels."""

from __future__ import annotations

import pytest

from kmirror.common.errors import ApiException, Errors
from kmirror.metadata.features import FEATURES, default_level, metadata_version_from_string, supported_features, unmet_dependencies
from kmirror.metadata.mirror_names import MirrorAssociation, association_of, parse_association, validate_mirror_name, validate_topic_name
from kmirror.metadata.registrations import VersionRange


@pytest.mark.parametrize("name", ["my-mirror", "a", "A.b_c-9", "x" * 249, "paused", ".removedx"])
def test_legal_mirror_names(name: str) -> None:
    validate_mirror_name(name)


@pytest.mark.parametrize("name", ["", ".", "..", "x" * 250, "a b", "a:b", "é", "x.paused", "x.removed", "x.paused.removed"])
def test_illegal_mirror_names(name: str) -> None:
    with pytest.raises(ApiException) as error:
        validate_mirror_name(name)
    assert error.value.error is Errors.INVALID_MIRROR_NAME


def test_texts_of_illegal_names() -> None:
    with pytest.raises(ApiException, match="Mirror name must not end with '.removed' or '.paused'"):
        validate_mirror_name("x.paused")
    with pytest.raises(ApiException, match="Topic name is invalid: the empty string is not allowed"):
        validate_topic_name("")
    with pytest.raises(ApiException, match="Topic name is invalid: 'a/b' contains one or more characters other than ASCII alphanumerics"):
        validate_topic_name("a/b")


@pytest.mark.parametrize(
    ("value", "association"),
    [
        ("X", MirrorAssociation("X")),
        ("X.paused", MirrorAssociation("X", paused=True)),
        ("X.removed", MirrorAssociation("X", removed=True)),
        ("X.paused.removed", MirrorAssociation("X", paused=True, removed=True)),
        ("a.b.paused", MirrorAssociation("a.b", paused=True)),
    ],
)
def test_associations_go_both_ways(value: str, association: MirrorAssociation) -> None:
    assert parse_association(value) == association
    assert str(association) == value
    assert association.active == (value == "X")


def test_no_association() -> None:
    assert association_of({"retention.ms": "1"}) is None
    assert parse_association("") is None


@pytest.mark.parametrize(
    ("text", "level"), [("4.3-IV0", 30), ("4.3", 30), ("4.0", 25), ("3.3", 7), ("4.0.1", 25), ("3.7-IV2", 17), ("3.9", 21)]
)
def test_metadata_versions_by_name(text: str, level: int) -> None:
    assert metadata_version_from_string(text) == level


@pytest.mark.parametrize("text", ["9.9", "4.3-IV9", "", "x"])
def test_metadata_versions_that_do_not_exist(text: str) -> None:
    with pytest.raises(ValueError, match="not a valid metadata.version"):
        metadata_version_from_string(text)


def test_default_levels_follow_the_metadata_version() -> None:
    newest = {name: default_level(name, 30) for name in FEATURES}
    assert newest == {
        "kraft.version": 1, "transaction.version": 2, "group.version": 1, "eligible.leader.replicas.version": 1, "share.version": 1,
        "streams.version": 1, "mirror.version": 0,
    }  # fmt: skip
    assert {name: level for name in FEATURES if (level := default_level(name, 7))} == {}


def test_mirror_version_is_unstable() -> None:
    assert "mirror.version" not in supported_features(unstable=False)
    assert supported_features(unstable=True)["mirror.version"] == VersionRange(0, 1)
    assert unmet_dependencies("mirror.version", 1, {"metadata.version": 29}) == [("metadata.version", 30)]
