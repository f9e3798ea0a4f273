"""Bad specs of every kind that users make, one after the other on three brokers under load: each is
told with its cause, disturbs one broker at most, and can be taken back.

The rows are in `tests/e2e/support/bad_specs.py`, and in `docs/bad-specs.md` for users. Those that
restart a broker take a quarter of a minute each: but for a few they need E2E_BAD_SPECS=all.
"""

import os
from collections.abc import Iterator

import pytest

from tests.e2e.support.bad_spec_course import BadSpecCourse
from tests.e2e.support.bad_specs import ROWS, BadSpec
from tests.e2e.support.cluster import Cluster
from tests.e2e.support.figures import Figures
from tests.e2e.support.images import Images
from tests.e2e.support.release import Release


@pytest.fixture(scope="module")
def course(
    lab: Cluster, images: Images, release: Release, request: pytest.FixtureRequest
) -> Iterator[BadSpecCourse]:
    """Three brokers of their own, and clients that watch them through all of the rows."""
    name = "e2e-bad-specs"
    lab.kubectl.remove_namespace(name)
    kubectl = lab.kubectl.make_namespace(name)
    yield BadSpecCourse(lab, images, kubectl)
    if request.session.testsfailed:
        print(kubectl.describe_pods())
    lab.kubectl.remove_namespace(name)


def marks_of(row: BadSpec) -> list[pytest.MarkDecorator]:
    """When a row is tried."""
    if row.is_quick:
        return [pytest.mark.quick]
    is_left_out = row.restarts and os.environ.get("E2E_BAD_SPECS") != "all"
    return [pytest.mark.skip(reason="E2E_BAD_SPECS is not all")] if is_left_out else []


@pytest.mark.parametrize(
    "row", [pytest.param(row, id=row.name, marks=marks_of(row)) for row in ROWS]
)
def test_a_bad_spec_is_told_and_can_be_taken_back(row: BadSpec, course: BadSpecCourse) -> None:
    """At most one broker is restarted for it; no request to any other one fails."""
    course.try_one(row)


@pytest.mark.quick
def test_nobody_has_noticed(course: BadSpecCourse, figures: Figures) -> None:
    """After all of the rows: no send has failed, every acknowledged record is there."""
    course.end(figures)
