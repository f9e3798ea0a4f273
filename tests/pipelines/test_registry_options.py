"""What jobs are told of a schema registry: contradictions are found before anything is asked."""

from typing import Any

import pytest

from barnabas_pipelines.errors import OptionsError
from barnabas_pipelines.jobs import aggregate, quality, snapshot
from barnabas_pipelines.jobs.job import Job
from barnabas_pipelines.jobs.settings import settings_of

COMMON = {"topic": "orders", "bootstrap-servers": "a:1", "checkpoint": "c"}
URL = {"schema-registry": "http://a:8081"}


def check(job: Job, given: dict[str, Any]) -> None:
    known = {option.name for option in job.options}
    common = {name: value for name, value in COMMON.items() if name in known}
    more = {"target": "t"} if job is aggregate.JOB else {}
    more |= {"table": "t"} if job is snapshot.JOB else {}
    job.check(settings_of(job.options, {**common, **more, **given}))


@pytest.mark.parametrize(
    "job", [quality.JOB, snapshot.JOB, aggregate.JOB], ids=lambda job: job.name
)
def test_a_registry_is_asked_for_by_the_format(job: Job) -> None:
    version = {"value-schema-version": "2"}
    check(job, {**URL, "value-format": "registry", **version})
    with pytest.raises(OptionsError, match="--schema-registry is missing"):
        check(job, {"value-format": "registry", **version})
    with pytest.raises(OptionsError, match="--schema-registry is only used with"):
        check(job, {**URL, "value-format": "text"})
    with pytest.raises(OptionsError, match="--value-schema-version is only for"):
        check(job, {**version, "value-format": "text"})
    with pytest.raises(OptionsError, match="it must be latest or the number of a version"):
        check(job, {**URL, "value-format": "registry", "value-schema-version": "newest"})


def test_an_unknown_option_of_the_registry_is_told_with_the_nearest() -> None:
    given = {"schema-registry-option": {"basic.auth.user": "x"}, "value-format": "registry"}
    with pytest.raises(OptionsError, match=r"did you mean basic.auth.user.info"):
        check(quality.JOB, {**URL, **given})


def test_keys_alone_may_be_by_a_registry() -> None:
    check(quality.JOB, {**URL, "value-format": "text", "key-format": "registry"})
    check(snapshot.JOB, {**URL, "key-format": "registry", "key-subject": "keys"})


def test_an_aggregate_wants_a_fixed_version() -> None:
    """Its state depends on the types, and the latest schema changes under a checkpoint."""
    with pytest.raises(OptionsError, match="--value-schema-version must be a number"):
        check(aggregate.JOB, {**URL, "value-format": "registry"})


def test_unknown_fields_are_of_json_values() -> None:
    with pytest.raises(OptionsError, match="--unknown-fields is only for --value-format json"):
        check(quality.JOB, {"value-format": "text", "unknown-fields": "refuse"})
