"""The error table against kio's, which was generated from Kafka's own."""

from __future__ import annotations

import pytest
from kio.schema.errors import ErrorCode

from kmirror.common.errors import ApiException, CorruptFileError, Errors

KNOWN_TO_KIO = [error for error in Errors if error.value in {code.value for code in ErrorCode} and error < 134]


def test_codes_are_minus_1_to_143_without_a_hole() -> None:
    assert [int(error) for error in Errors] == list(range(-1, 144))


@pytest.mark.parametrize("error", KNOWN_TO_KIO, ids=lambda error: error.name)
def test_name_and_retriable_are_kafkas(error: Errors) -> None:
    kafkas = ErrorCode(error.value)
    assert (error.name.lower(), error.retriable) == (kafkas.name, kafkas.retriable)


def test_kio_knows_nearly_all() -> None:
    assert len(KNOWN_TO_KIO) >= 130


def test_the_kips_codes_are_not_retriable() -> None:
    assert not any(error.retriable for error in Errors if error >= 134)


def test_an_unknown_code_is_an_unknown_server_error() -> None:
    assert Errors.for_code(9999) is Errors.UNKNOWN_SERVER_ERROR
    assert Errors.for_code(3) is Errors.UNKNOWN_TOPIC_OR_PARTITION


def test_exceptions_say_what_they_mean_in_one_line() -> None:
    assert ApiException(Errors.NOT_COORDINATOR).message == "This is not the correct coordinator."
    assert str(ApiException(Errors.INVALID_REQUEST, "no topics")) == "INVALID_REQUEST: no topics"
    assert str(CorruptFileError("/d/t-0/0.log", 17, "magic is 9")) == "/d/t-0/0.log: at byte 17: magic is 9"
