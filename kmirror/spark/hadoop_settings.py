"""Hands a session's `spark.hadoop.*` settings to the processes that read Hadoop file systems.

The processes that plan and run a read have no session. Spark starts each with the environment that
the driver's SparkContext had when the function was wrapped, so the settings travel there, as JSON.
`register` hands them on; a session that does not register has HADOOP_CONF_DIR alone. S3 is not read
by Hadoop's client, so its settings, which may be secrets, stay where they are.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

VARIABLE: Final = "KMIRROR_HADOOP_SETTINGS"
PREFIX: Final = "spark.hadoop."
_NOT_READ_BY_HADOOP: Final = "fs.s3"


def chosen_settings(configs: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Returns Hadoop's own settings among a session's, by Hadoop's names."""
    found = {name.removeprefix(PREFIX): value for name, value in configs if name.startswith(PREFIX)}
    return {name: value for name, value in sorted(found.items()) if not name.startswith(_NOT_READ_BY_HADOOP)}


def hand_on_settings(spark: SparkSession) -> None:
    """Makes the settings known in this process and in every process that Spark starts for it from
    now on."""
    context = spark.sparkContext
    settings = chosen_settings(context.getConf().getAll())
    if settings:
        os.environ[VARIABLE] = context.environment[VARIABLE] = json.dumps(settings)


def handed_on_settings() -> dict[str, str]:
    """Returns the settings that this process was given."""
    found: dict[str, str] = json.loads(os.environ.get(VARIABLE, "{}"))
    return found
