"""When the files of a batch are written again, and how."""

import random

import pytest

from barnabas_pipelines.archive.file_sizes import (
    FileSizes,
    Rewrite,
    records_per_file_max,
    rewrite,
)

SIZES = FileSizes(target_bytes=1000, maximum_bytes=4000)


def files(*sizes: int, day: str = "dt=2026-11-22") -> dict[str, int]:
    """Files of one day."""
    return {f"{day}/part-{number}": size for number, size in enumerate(sizes)}


def test_tiny_files_are_put_together() -> None:
    """A batch of a quiet topic has one per partition otherwise."""
    assert rewrite(files(10, 20, 30), 6, SIZES) == Rewrite(task_count=1, records_per_file_max=320)


@pytest.mark.parametrize(
    "found",
    [files(10), files(900, 700, 600), files(3999), files(500, 500, 500), {}],
    ids=["one", "near the target", "large", "half", "none"],
)
def test_files_of_a_good_size_stay(found: dict[str, int]) -> None:
    """Writing them again would cost more than it gives."""
    assert rewrite(found, 100, SIZES) is None


def test_days_have_files_of_their_own() -> None:
    """Each needs one at least, so one tiny file a day cannot be helped."""
    assert rewrite(files(10) | files(10, day="dt=2026-11-23"), 2, SIZES) is None
    found = files(10, 10) | files(10, 10, day="dt=2026-11-23")
    assert rewrite(found, 4, SIZES) == Rewrite(task_count=1, records_per_file_max=320)


def test_a_giant_file_is_split() -> None:
    """Over as many tasks as the target asks for, with room for records of other sizes."""
    assert rewrite(files(8000), 800, SIZES) == Rewrite(task_count=8, records_per_file_max=320)


def test_splitting_goes_on_until_it_fits() -> None:
    """One part of the batch may have much larger records than the rest."""
    first = rewrite(files(8000), 800, SIZES)
    assert first is not None
    again = rewrite(files(5000, 3000), 800, SIZES, first)
    assert again is not None
    assert again.records_per_file_max == 160


def test_after_splitting_small_files_stay() -> None:
    """Otherwise splitting and putting together would take turns for ever."""
    assert rewrite(files(*[100] * 40), 800, SIZES, _plan(20)) is None


def _plan(records: int) -> Rewrite:
    return Rewrite(task_count=8, records_per_file_max=records)


def test_a_single_record_may_be_too_large() -> None:
    """It cannot be split."""
    assert rewrite(files(9000), 1, SIZES, _plan(1)) is None


def test_rewriting_always_ends_with_files_that_fit() -> None:
    """Whatever the sizes of records are, and however Spark spreads them."""
    for seed in range(200):
        chance = random.Random(seed)
        records = [chance.choice([1, 10, 500, 3900]) for _ in range(chance.randrange(1, 60))]
        found, plan = files(sum(records)), None
        for _ in range(100):
            plan = rewrite(found, len(records), SIZES, plan)
            if plan is None:
                break
            found = files(*split(records, plan))
        assert plan is None, f"seed {seed}"
        assert max(found.values()) <= SIZES.maximum_bytes, f"seed {seed}"


def split(records: list[int], plan: Rewrite) -> list[int]:
    """File sizes: every task has a run of records, and files of so many at most."""
    share = -(-len(records) // plan.task_count)
    sizes = []
    for start in range(0, len(records), share):
        task = records[start : start + share]
        step = plan.records_per_file_max
        sizes += [sum(task[at : at + step]) for at in range(0, len(task), step)]
    return sizes


def test_the_batch_before_tells_what_to_expect() -> None:
    """So that a long backlog is split when it is first written."""
    assert records_per_file_max(1000, 100, SIZES) == 320
    assert records_per_file_max(10**9, 1, SIZES) == 1
    assert records_per_file_max(0, 0, SIZES) is None
