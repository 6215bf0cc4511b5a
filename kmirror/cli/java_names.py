"""How Java prints a Kafka exception: some lines of Kafka's tools contain its class name.

Users search for these names.
"""

from __future__ import annotations

import re

from kmirror.common.errors import ApiException, Errors


def java_exception(error: ApiException) -> str:
    """Returns class and message, as Java prints a cause."""
    return f"{java_exception_name(error.error)}: {error.message}"


def java_exception_name(error: Errors) -> str:
    """Returns `org.apache.kafka.common.errors.XException`; some classes are named irregularly."""
    renamed = {
        Errors.NON_EMPTY_GROUP: "GroupNotEmpty",
        Errors.REQUEST_TIMED_OUT: "Timeout",
        Errors.TOPIC_ALREADY_EXISTS: "TopicExists",
        Errors.UNKNOWN_SERVER_ERROR: "UnknownServer",
        Errors.MESSAGE_TOO_LARGE: "RecordTooLarge",
        Errors.INVALID_TOPIC_EXCEPTION: "InvalidTopic",
    }
    words = renamed.get(error) or "".join(word.capitalize() for word in re.sub(r"_FAILED$", "", error.name).split("_"))
    return f"org.apache.kafka.common.errors.{words}Exception"
