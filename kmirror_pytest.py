"""The entry point of kmirror's pytest plugin (`kmirror.pytest_plugin`).

It stands outside the package because pytest rewrites the assertions of the whole package that an entry point is in: for a development
install of kmirror that would be every module of the broker, in every test run.
"""

from kmirror.pytest_plugin import (
    _kmirror_options,
    _kmirror_session_clusters,
    kmirror_admin,
    kmirror_cluster,
    kmirror_cluster_factory,
    kmirror_name,
    kmirror_topic,
    pytest_addoption,
    pytest_configure,
)

__all__ = [
    "_kmirror_options",
    "_kmirror_session_clusters",
    "kmirror_admin",
    "kmirror_cluster",
    "kmirror_cluster_factory",
    "kmirror_name",
    "kmirror_topic",
    "pytest_addoption",
    "pytest_configure",
]
