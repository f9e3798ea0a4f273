"""The error table against that of another implementation."""

from kio.schema.errors import ErrorCode as KioErrorCode

from barnabas_protocol.errors import ErrorCode, KafkaError, ParseError, is_retriable


def test_names_codes_and_retriability_are_those_of_kio() -> None:
    """A wrong class of error makes a client give up, or never give up."""
    for theirs in KioErrorCode:
        ours = ErrorCode(int(theirs))
        assert ours.name == theirs.name.upper()
        assert is_retriable(ours) == theirs.retriable


def test_there_are_no_gaps_in_the_table() -> None:
    """134 to 136 are new in Apache Kafka 4.4."""
    assert sorted(ErrorCode) == list(range(-1, 137))


def test_errors_say_what_happened() -> None:
    """One for peers, one for the log."""
    error = KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, "no such name")
    assert (error.code, error.message) == (17, "no such name")
    assert str(error) == "INVALID_TOPIC_EXCEPTION: no such name"
    assert str(KafkaError(ErrorCode.NONE)) == "NONE"
    parse_error = ParseError("too short", 7)
    assert (parse_error.reason, parse_error.position) == ("too short", 7)
    assert str(parse_error) == "too short (at byte 7)"
