"""AdmissionReviews of evictions, read and answered."""

from typing import Any

import pytest

from barnabas_operator.eviction.review import (
    EvictionReview,
    ReviewError,
    let_through,
    read_review,
    refused,
    uid_of_request,
)
from tests.support.admission import eviction_review


def review(**fields: Any) -> dict[str, Any]:
    document = eviction_review("shop", "demo-1")
    document["request"] |= {"uid": "u1", **fields}
    return document


def test_an_eviction_is_read() -> None:
    assert read_review(review()) == EvictionReview(uid="u1", namespace="shop", pod="demo-1")


@pytest.mark.parametrize(
    "fields",
    [
        {"dryRun": True},
        {"object": {"deleteOptions": {"dryRun": ["All"]}}},
    ],
)
def test_a_dry_run_is_known_by_either_sign(fields: Any) -> None:
    """`kubectl drain --dry-run=server` puts it into the eviction only."""
    found = read_review(review(**fields))
    assert found is not None
    assert found.is_dry_run


def test_a_grace_period_of_who_evicts_is_known() -> None:
    found = read_review(review(object={"deleteOptions": {"gracePeriodSeconds": 0}}))
    assert found is not None
    assert found.grace_period_seconds == 0


@pytest.mark.parametrize(
    "fields",
    [
        {"operation": "DELETE"},
        {"subResource": "binding"},
        {"subResource": None},
        {"resource": {"group": "", "version": "v1", "resource": "nodes"}},
    ],
)
def test_what_is_no_eviction_is_none_of_ours(fields: Any) -> None:
    """A configuration that sends more than it should must not hold anything up."""
    assert read_review(review(**fields)) is None


@pytest.mark.parametrize(
    "document",
    [None, [], {}, {"request": {}}, {"request": None}, review(object="x"), review(resource=3)],
)
def test_what_is_no_review_is_refused(document: Any) -> None:
    with pytest.raises(ReviewError):
        read_review(document)


def test_answers_are_what_the_api_server_wants() -> None:
    """operator.md 4: 429, upon which kubectl drain tries again; 500 ends the drain."""
    assert let_through("u1")["response"] == {"uid": "u1", "allowed": True}
    assert let_through("u1", "beware")["response"]["warnings"] == ["beware"]
    answer = refused("u1", "not yet")
    assert (answer["apiVersion"], answer["kind"]) == ("admission.k8s.io/v1", "AdmissionReview")
    assert answer["response"]["allowed"] is False
    status = answer["response"]["status"]
    assert (status["code"], status["reason"]) == (429, "TooManyRequests")
    assert status["message"] == "not yet"
    assert uid_of_request(review()) == "u1"
    assert uid_of_request([]) == ""
