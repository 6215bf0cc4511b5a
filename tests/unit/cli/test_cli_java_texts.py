"""Arguments that Kafka's tools read with Java's own functions; the numbers are Java's."""

from __future__ import annotations

import pytest

from kmirror.cli.java_texts import (
    before_ms,
    java_int,
    java_split,
    parse_datetime_ms,
    parse_duration_ms,
)
from kmirror.common.errors import KmirrorError


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [
        ("1970-01-01T00:00:01.500", 1_500),
        ("1970-01-01T01:00:00.000+0100", 0),
        ("1970-01-01T01:00:00.000+01:00", 0),
        ("1970-01-01T01:30:00.000+01:30", 0),
        ("1970-01-01T01:30:00.000+0130", 0),
        ("1970-01-01T00:00:00.000Z", 0),
        ("2020-01-01T00:00:00.000-01", 1577840400000),
        ("2020-01-01T00:00:00.000+013", 1577833200000),
        ("2020-01-01T00:00:00.000Zjunk", 1577836800000),
        ("2020-01-01T 00: 00:\t00. 5Z", 1577836800005),
        ("2020-1-1T1:2:3.4", 1577840523004),
        ("20-01-01T00:00:00.000", -61536240000000),
        ("12020-01-01T00:00:00.000", 317147356800000),
        ("1500-02-29T00:00:00.000", -14825894400000),
        ("1582-10-04T00:00:00.000", -12219379200000),
        ("1582-10-15T00:00:00.000", -12219292800000),
        ("2020-01-01T00:00:00.0000Z", 1577836800000),
        ("0001-01-01T00:00:00.000", -62135769600000),
        ("292278994-08-17T07:12:55.807", 9223372036854775807),
    ],
)
def test_a_datetime_is_read_as_java_reads_it(text: str, milliseconds: int) -> None:
    assert parse_datetime_ms(text) == milliseconds


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("1970-01-01T00:00:01", "1970-01-01T00:00:01Z"),
        ("2020-01-01T00:00:00Z", "2020-01-01T00:00:00Z"),
        ("2020-13-01T00:00:00.000", "2020-13-01T00:00:00.000Z"),
        ("2021-02-29T00:00:00.000", "2021-02-29T00:00:00.000Z"),
        ("1582-10-10T00:00:00.000", "1582-10-10T00:00:00.000Z"),
        ("2020-01-01T24:00:00.000", "2020-01-01T24:00:00.000Z"),
        ("2020-01-01T00:00:00.9999", "2020-01-01T00:00:00.9999Z"),
        ("2020-01-01T00:00:00.000+1", "2020-01-01T00:00:00.000+1"),
        ("2020-01-01T00:00:00.000+25:00", "2020-01-01T00:00:00.000+25:00"),
        ("292278994-08-17T07:12:55.808", "292278994-08-17T07:12:55.808Z"),
    ],
)
def test_a_datetime_that_is_none_is_named_with_its_zone(text: str, named: str) -> None:
    with pytest.raises(KmirrorError) as refused:
        parse_datetime_ms(text)
    assert str(refused.value) == f'java.text.ParseException: Unparseable date: "{named}"'


@pytest.mark.parametrize("text", ["", "T", "2020-01-01", "2020-01-01T", "2020-01-01t00:00:00.000"])
def test_a_datetime_needs_a_t(text: str) -> None:
    with pytest.raises(KmirrorError, match="It does not contain a 'T' according to ISO8601"):
        parse_datetime_ms(text)


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [
        ("P1D", 86_400_000),
        ("PT1H30M", 5_400_000),
        ("-PT1.5S", -1_500),
        ("PT1,5S", 1_500),
        ("p1dt1s", 86_401_000),
    ],
)
def test_durations_are_iso_8601(text: str, milliseconds: int) -> None:
    assert parse_duration_ms(text) == milliseconds


@pytest.mark.parametrize(
    ("text", "end"),
    [
        *((text, "") for text in ("", "P", "PT", "1D", "P1H", "P1DT", "PT.5S")),
        ("P99999999999999999999D", ": days"),
        ("PT9223372036854775807H", ": hours"),
        ("PT-9223372036854775807M", ": minutes"),
        ("PT9999999999999999999S", ": seconds"),
        ("PT9223372036854775807S", None),
    ],
)
def test_what_is_no_duration_is_refused(text: str, end: str | None) -> None:
    if end is None:
        assert parse_duration_ms(text) == 9223372036854775807000
        return
    with pytest.raises(KmirrorError) as refused:
        parse_duration_ms(text)
    assert str(refused.value) == f"Text cannot be parsed to a Duration{end}"


def test_a_duration_before_the_first_time_is_refused_not_a_traceback() -> None:
    day = 86_400_000
    assert before_ms(5 * day, day) == 4 * day
    with pytest.raises(KmirrorError, match="^long overflow$"):
        before_ms(0, -106_751_991_168 * day)
    with pytest.raises(KmirrorError, match="^Instant exceeds minimum or maximum instant$"):
        before_ms(0, 999_999_999_999 * day)


def test_words_and_numbers_are_javas() -> None:
    assert java_split("g:0:", ":") == ["g", "0"]
    assert java_split("g:", ":") == ["g"]
    assert java_split("", ",") == [""]
    assert java_split("0,,1", ",") == ["0", "", "1"]
    assert java_int("+7") == 7
    for text in ("", "1_0", " 1", "2147483648", "a"):
        with pytest.raises(KmirrorError, match="For input string"):
            java_int(text)
