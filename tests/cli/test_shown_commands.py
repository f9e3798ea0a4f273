"""Commands that are shown for copying are taken as they are meant, whatever names there are.

CON-102: a name may begin with a dash or hold what a shell would run.
"""

from dataclasses import replace
from typing import Any

import click
import pytest

from barnabas_client.admin.values.groups import MemberDescription
from barnabas_client.facts.command_lines import command_line
from barnabas_client.facts.group_diagnosis import (
    OPEN_TRANSACTION_MS,
    REBALANCING_MS,
    RULES,
    Finding,
    diagnose,
)
from barnabas_client.facts.group_observation import GroupObservation, OpenTransaction
from barnabas_client.facts.group_watch import UNWATCHED, GroupMovement
from barnabas_console.rights.needed import Need, lock_of
from barnabas_protocol.acl import AclOperation
from barnabas_protocol.ids import TopicPartition
from tests.support.console_commands import parsed

NAMES = ("orders", "-x", "--help", "-", "--", "-o json", 'it\'s "$(reboot)"; `x` \\ é')
NOW_MS = 10_000_000


def findings(name: str) -> list[Finding]:
    """Every rule's finding of a group, topic and transactional id of this name."""
    places = (TopicPartition(name, 0), TopicPartition(name, 1))
    member = MemberDescription(
        member_id="m", client_id=name, client_host="/h", assignment=places[:1]
    )
    seen = GroupObservation(
        group_id=name,
        type="Consumer",
        state="Stable",
        members=(member,),
        committed=dict.fromkeys(places, 5),
        starts=dict.fromkeys(places, 0),
        ends=dict.fromkeys(places, 10),
    )
    held = OpenTransaction(
        place=places[0],
        start_offset=7,
        producer_id=1,
        transactional_id=name,
        since_ms=NOW_MS - OPEN_TRANSACTION_MS,
    )
    slow = GroupMovement(arriving=9.0, reading=1.0, low_before=0, low_after=500)
    cases: list[tuple[GroupObservation, GroupMovement]] = [
        (replace(seen, members=(), state="Empty"), UNWATCHED),
        (replace(seen, members=(member, replace(member, assignment=()))), UNWATCHED),
        (seen, GroupMovement(rebalancing_ms=REBALANCING_MS)),
        (replace(seen, leaderless=frozenset(places)), UNWATCHED),
        (replace(seen, starts=dict.fromkeys(places, 6)), UNWATCHED),
        (replace(seen, open_transactions=(held,)), UNWATCHED),
        (replace(seen, open_transactions=(replace(held, is_hanging=True),)), UNWATCHED),
        (seen, replace(slow, standing_ms={places[0]: 200_000})),
        (seen, slow),
        (replace(seen, ends={}), UNWATCHED),
        (replace(seen, committed={}), UNWATCHED),
        (seen, UNWATCHED),
    ]
    found = [one for case in cases for one in diagnose(case[0], NOW_MS, case[1])]
    assert {f"_{one.rule}" for one in found} >= {rule.__name__ for rule in RULES}
    return [one for one in found if one.command]


def names_in(values: Any) -> set[str]:
    """All texts among what a command was given."""
    if isinstance(values, str):
        return {values}
    if isinstance(values, dict):
        return names_in(list(values.values()))
    return set().union(*map(names_in, values)) if isinstance(values, list | tuple) else set()


@pytest.mark.parametrize("name", NAMES)
def test_each_command_of_a_diagnosis_is_about_what_it_names(name: str) -> None:
    """CON-102, CON-119."""
    shown = findings(name)
    assert len(shown) > len(RULES)
    for finding in shown:
        given = parsed(finding.command)
        if finding.command != "barnabas transaction hanging":
            assert name in names_in(given), finding.command


@pytest.mark.parametrize("name", NAMES)
def test_each_command_about_a_missing_right_is_about_what_it_names(name: str) -> None:
    """CON-102, CON-141: principal and resource are names of others, too."""
    for need in (
        Need.of_topic(AclOperation.READ, name),
        Need.of_group(AclOperation.READ, name),
        Need.of_cluster(AclOperation.ALTER),
    ):
        lock = lock_of(f"User:{name}", (need,))
        for command in (lock["command"], lock["explain_command"]):
            assert {f"User:{name}", need.name} <= names_in(parsed(command)) | {"kafka-cluster", ""}


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    ("command", "options"),
    [
        ("topic describe", []),
        ("topic delete", ["--yes"]),
        ("topic alter", ["--partitions", "12"]),
        ("group reset", ["--to-latest", "--execute"]),
        ("share delete", ["--yes"]),
        ("user rotate", []),
        ("consume", ["--partition", "0", "--offset", "-100", "--where", "key=a b"]),
    ],
)
def test_names_are_never_taken_for_options(command: str, options: list[str], name: str) -> None:
    given = parsed(command_line(command, name, options=options, bootstrap="b:9092"))
    assert name in names_in(given)


def test_the_parser_refuses_what_is_wrong() -> None:
    """Else the tests above would say nothing."""
    for wrong in ("barnabas topic describe -x", "barnabas group reset billing --to-nowhere"):
        with pytest.raises(click.UsageError):
            parsed(wrong)
