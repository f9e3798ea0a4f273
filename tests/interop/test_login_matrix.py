"""Every way to log in, and to fail, by real clients: as with Apache Kafka 4.4 (SEC-110).

Both brokers have the same listeners, users, certificates and tokens. What a user of a client gets
to see is compared as text, but for addresses and times; what is different on purpose is listed in
`logins/differences.yaml`.
"""

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from fnmatch import fnmatchcase
from itertools import product
from pathlib import Path
from typing import Final, NamedTuple

import pytest
import yaml

from tests.interop.logins.brokers import KINDS, LoginBroker, LoginFiles
from tests.interop.logins.cases import LoginCase, login_cases
from tests.interop.logins.programs import PROGRAMS, normalised

pytestmark = [pytest.mark.interop, pytest.mark.timeout(900)]

DIFFERENCES: Final = Path(__file__).parent / "logins" / "differences.yaml"
START_SECONDS: Final = 180
TRIES_MAX: Final = 4
AT_ONCE: Final = 3
"""Clients that log in at the same time: a machine of two processors has to keep up."""


class Difference(NamedTuple):
    """An entry of the file: patterns, and why it is so."""

    client: str
    case: str
    apache: str
    barnabas: str
    why: str

    def is_of(self, client: str, case: str) -> bool:
        return fnmatchcase(client, self.client) and fnmatchcase(case, self.case)

    def allows(self, apache: str, barnabas: str) -> bool:
        return fnmatchcase(apache, self.apache) and fnmatchcase(barnabas, self.barnabas)


class Seen(NamedTuple):
    """What came of all log-ins: by client and case, with either broker, each time it was tried."""

    by_kind: dict[str, dict[tuple[str, str], list[str]]]

    def both(self, client: str, case: str) -> tuple[str, str]:
        """What came of a case with Apache Kafka and with Barnabas: the same, if ever it was."""
        apache, barnabas = (self.by_kind[kind][client, case] for kind in KINDS)
        entry = difference_of(client, case)
        pairs = list(product(apache, barnabas))
        alike = [pair for pair in pairs if pair[0] == pair[1]]
        allowed = [pair for pair in pairs if entry is not None and entry.allows(*pair)]
        return (alike or allowed or pairs)[-1]

    def unlike(self) -> list[tuple[str, str]]:
        """Clients and cases that differ and are not listed."""
        found = []
        for client, case in self.by_kind["apache"]:
            apache, barnabas = self.both(client, case)
            entry = difference_of(client, case)
            if apache != barnabas and (entry is None or not entry.allows(apache, barnabas)):
                found.append((client, case))
        return found


def listed() -> list[Difference]:
    return [Difference(**entry) for entry in yaml.safe_load(DIFFERENCES.read_text())]


def difference_of(client: str, case: str) -> Difference | None:
    return next((one for one in listed() if one.is_of(client, case)), None)


def outcomes(client: str, cases: list[LoginCase], directory: Path) -> list[str]:
    """What a client comes to."""
    directory.mkdir(parents=True)
    return [normalised(one) for one in PROGRAMS[client].outcomes(cases, directory)]


def outcomes_of_all(cases: list[LoginCase], directory: Path) -> dict[tuple[str, str], list[str]]:
    """What all clients come to with one broker."""
    with ThreadPoolExecutor(AT_ONCE) as threads:
        told = threads.map(lambda one: outcomes(one, cases, directory / one), PROGRAMS)
        by_client = dict(zip(PROGRAMS, told, strict=True))
    return {
        (client, case.name): [outcome]
        for client, of_cases in by_client.items()
        for case, outcome in zip(cases, of_cases, strict=True)
    }


def try_again(seen: Seen, cases: dict[str, list[LoginCase]], directory: Path) -> None:
    """Have those log in once more, with both, that differ.

    Which of two errors a client tells first is a race of its threads.
    """
    unlike = seen.unlike()
    for client in dict.fromkeys(client for client, _ in unlike):
        for kind, of_kind in cases.items():
            wanted = [case for case in of_kind if (client, case.name) in unlike]
            told = outcomes(client, wanted, directory / kind / client)
            for case, outcome in zip(wanted, told, strict=True):
                seen.by_kind[kind][client, case.name].append(outcome)


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Seen]:
    """All log-ins, and those that differ several times."""
    directory = tmp_path_factory.mktemp("logins")
    files = LoginFiles(directory / "files")
    brokers = [LoginBroker(kind, directory / kind, files) for kind in KINDS]
    found, cases = Seen({}), dict[str, list[LoginCase]]()
    try:
        with ThreadPoolExecutor(len(brokers)) as threads:
            list(threads.map(lambda one: one.node.start(START_SECONDS), brokers))
        for broker in brokers:
            asyncio.run(broker.prepare())
            cases[broker.kind] = login_cases(broker, files)
            folder = directory / f"{broker.kind}-clients"
            found.by_kind[broker.kind] = outcomes_of_all(cases[broker.kind], folder)
        for number in range(1, TRIES_MAX):
            try_again(found, cases, directory / f"again-{number}")
        yield found
    finally:
        for broker in brokers:
            if broker.node.process is not None:
                broker.node.stop()


def test_what_a_client_gets_to_see_is_the_same(seen: Seen) -> None:
    """SEC-110: SEC-3, SEC-21 to SEC-28 as real clients meet them, but for what is listed."""
    wrong = []
    for client, case in seen.unlike():
        apache, barnabas = seen.both(client, case)
        wrong.append(f"{client}, {case}\n  apache   {apache}\n  barnabas {barnabas}")
    assert not wrong, "\n".join(wrong)


def test_the_right_log_in_is_in_and_no_other(seen: Seen) -> None:
    """SEC-21: otherwise the comparison would say little."""
    for kind in KINDS:
        for (client, case), told in seen.by_kind[kind].items():
            outcome = told[-1]
            is_in = outcome == "in" or outcome.endswith("> in")
            assert is_in is case.endswith(", right") or outcome == "not tried", (kind, client, case)


def test_each_difference_is_one(seen: Seen) -> None:
    """An entry that nothing needs any more is taken out."""
    needed = {
        difference_of(client, case)
        for client, case in seen.by_kind["apache"]
        if len(set(seen.both(client, case))) > 1
    }
    assert [entry for entry in listed() if entry not in needed] == []


def test_the_comparison_notices_another_word() -> None:
    """Of a log-in that has an entry as well."""
    entry = Difference("java-*", "TLS, right", "in", "in", "ours: none")
    assert entry.is_of("java-4.4.0", "TLS, right")
    assert not entry.is_of("aiokafka", "TLS, right")
    assert entry.allows("in", "in")
    assert not entry.allows("in", "SslAuthenticationException: no")
