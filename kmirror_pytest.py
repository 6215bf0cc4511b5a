"""The pytest plugin's entry point, outside the package, because pytest rewrites the assertions of
every module of an entry point's package.

For a development install of kmirror that would be the whole broker, in every test run. The plugin
itself is `kmirror.pytest_plugin`.
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
