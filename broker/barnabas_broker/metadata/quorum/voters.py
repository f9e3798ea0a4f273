"""When a record of the metadata log is committed: pure arithmetic over voters.

A voter is a node together with the directory that holds its log: a node that comes back with an
empty disk is another voter. Rules 3 and 4 of the control plane (`docs/formats/metadata.md`): a
majority of every configuration in force must hold the record, and the record that a majority holds
must be of the leader's own epoch, for only that makes the records before it safe.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple


class Voter(NamedTuple):
    """A place in the membership of the metadata log."""

    node_id: int
    directory_id: bytes


def has_majority(members: Iterable[Voter], holders: Iterable[Voter]) -> bool:
    """Whether more than half of the members are among the holders."""
    voters = frozenset(members)
    return 2 * len(voters.intersection(holders)) > len(voters)


def majority_end_offset(members: Iterable[Voter], end_offsets: Mapping[Voter, int]) -> int:
    """The highest exclusive offset that a majority of the members has flushed, 0 for none."""
    held = sorted((end_offsets.get(voter, 0) for voter in frozenset(members)), reverse=True)
    return held[len(held) // 2] if held else 0


def committed_end_offset(
    configurations: Sequence[Iterable[Voter]],
    end_offsets: Mapping[Voter, int],
    own_epoch_start: int,
) -> int:
    """The exclusive offset up to which records are committed, or 0 if that is not known yet.

    `configurations` are the member sets that must each agree: one, or old and new while a change is
    under way. `own_epoch_start` is the offset of the first record of the leader's own epoch: as
    long as no majority holds that one, copies of older records commit nothing.
    """
    agreed = min(majority_end_offset(members, end_offsets) for members in configurations)
    return agreed if agreed > own_epoch_start else 0
