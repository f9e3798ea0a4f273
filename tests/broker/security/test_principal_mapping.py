"""Rules that make principals of certificates' names, beside a naive evaluator and Java's words."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas_broker.security.principal_mapping import MappingError, PrincipalMapping

NAME = "CN=Duke,OU=ServiceUsers,O=Org,C=US"


@pytest.mark.parametrize(
    ("rules", "name", "expected"),
    [
        ("DEFAULT", NAME, NAME),
        ("RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/", NAME, "Duke"),
        ("RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/L", NAME, "duke"),
        ("RULE:^CN=(.*?),.*$/$1/U", NAME, "DUKE"),
        ("RULE:^CN=(.*?),OU=(.*?),O=(.*?),C=(.*?)$/$1@$2/L", NAME, "duke@serviceusers"),
        # The first that matches wins; blanks around commas do not count.
        ("RULE:^CN=nobody$/x/ , RULE:^CN=(.*?),.*$/first/,DEFAULT", NAME, "first"),
        ("RULE:^CN=nobody$/x/,DEFAULT", NAME, NAME),
        # The whole name has to match.
        ("RULE:CN=Duke/x/,DEFAULT", NAME, NAME),
        # A comma and an escaped slash within a rule.
        (r"RULE:^CN=(.*),OU=(.*)$/$2,$1/", "CN=a,OU=b", "b,a"),
        (r"RULE:^CN=(.*)\/(.*)$/$1\/$2/", "CN=kafka/host", "kafka/host"),
        # Groups: beyond the last one as it is written; $12 may be $1 and a 2.
        ("RULE:^CN=(.*)$/$1@$4/", "CN=a", "a@$4"),
        ("RULE:^CN=(.*)$/$12/", "CN=a", "a2"),
        ("RULE:^CN=(.*)$/$0/", "CN=a", "CN=a"),
        (r"RULE:^CN=(.*)$/\$1/", "CN=a", "$1"),
        # Java's replaceAll also replaces the empty match at the end.
        ("RULE:.*/x/", "CN=a", "xx"),
    ],
)
def test_a_rule_makes_the_name_that_kafka_makes(rules: str, name: str, expected: str) -> None:
    """SEC-4: KIP-371, and Java's Matcher."""
    assert PrincipalMapping(rules).name_of(name) == expected


@pytest.mark.parametrize(
    ("rules", "reason"),
    [
        ("default", "Invalid rule"),
        ("DEFAUL", "Invalid rule"),
        ("DEFAULT/L", "Invalid rule"),
        ("RULE:CN=(.*?),OU=ServiceUsers.*/$1", "Invalid rule"),
        ("RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/T", "Invalid rule"),
        ("RULE:^CN=(.*?/x/", "cannot be used"),
        ("RULE:(?=a)/x/", "cannot be used"),
        ("RULE:^CN=(.*)$/$/", r"a \$ without"),
        ("RULE:^CN=.*$/$1/", "no group"),
        ("", "has no rule"),
        (" , ", "has no rule"),
    ],
)
def test_rules_that_cannot_be_kept_to_are_refused(rules: str, reason: str) -> None:
    """SEC-4: at the start, not at the first connection."""
    with pytest.raises(MappingError, match=reason):
        PrincipalMapping(rules)


def test_a_name_that_no_rule_matches_is_no_principal() -> None:
    """SEC-4: the connection fails; a name without end is not matched at all."""
    mapping = PrincipalMapping("RULE:^CN=(a+)$/$1/")
    assert mapping.name_of("CN=aaa") == "aaa"
    for name in ("CN=b", "CN=", "CN=" + "a" * 10_000):
        with pytest.raises(MappingError, match="no rule"):
            mapping.name_of(name)


PIECES = st.sampled_from(["CN=", "OU=", "(.*)", "(.*?)", "[a-c]+", "a", "b", ",", r"\/"])
REPLACEMENTS = st.sampled_from(["$1", "$2", "$0", "a", ",", "@", r"\/", "$12"])
NAMES = st.text("abcABC,=/CNOU", max_size=12)
RULES = st.tuples(
    st.lists(PIECES, min_size=1, max_size=4).map("".join),
    st.lists(REPLACEMENTS, max_size=3).map("".join),
    st.sampled_from(["", "L", "U"]),
)


def naive(rules: list[tuple[str, str, str]], name: str) -> str | None:
    """The same by Python's own matcher and its own way to write a replacement."""
    for pattern, replacement, case in rules:
        compiled = re.compile(pattern)
        if compiled.fullmatch(name) is None:
            continue

        def written(found: re.Match[str], text: str = replacement) -> str:
            def group(number: re.Match[str]) -> str:
                for length in range(len(number[1]), 0, -1):
                    if int(number[1][:length]) <= found.re.groups:
                        rest = number[1][length:]
                        return (found[int(number[1][:length])] or "") + rest
                return number[0]

            return re.sub(r"\$(\d+)", group, text.replace(r"\/", "/"))

        # As Java finds: after an empty match one character later, not at the same place again.
        out, end, position = [], 0, 0
        while position <= len(name) and (found := compiled.search(name, position)):
            out += [name[end : found.start()], written(found)]
            end = found.end()
            position = end + (found.start() == end)
        result = "".join(out) + name[end:]
        result = {"L": result.lower(), "U": result.upper(), "": result}[case]
        if result:
            return result
    return None


@given(st.lists(RULES, min_size=1, max_size=3), NAMES)
def test_any_rules_make_what_a_naive_evaluator_makes(
    rules: list[tuple[str, str, str]], name: str
) -> None:
    """SEC-4."""
    text = ",".join(f"RULE:{pattern}/{to}/{case}" for pattern, to, case in rules)
    try:
        mapping = PrincipalMapping(text)
    except MappingError as error:
        assert "no group" in str(error)  # Java fails at the first name instead
        return
    expected = naive(rules, name)
    if expected is None:
        with pytest.raises(MappingError):
            mapping.name_of(name)
    else:
        assert mapping.name_of(name) == expected
