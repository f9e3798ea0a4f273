"""The password of a User through its life, with the operator dying between any two steps."""

import random
from datetime import UTC, datetime, timedelta

from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas_operator.reconcile.user.password import (
    Credential,
    PasswordPlan,
    credential_of,
    credential_text,
    next_look,
    plan_given_password,
    plan_made_password,
    salt_of,
)
from barnabas_operator.user_spec import Rotation

NOW = datetime(2026, 11, 26, 12, tzinfo=UTC)
ROTATION = Rotation(every=timedelta(days=30), overlap=timedelta(hours=24))


class Brokers:
    """SEC-27: with the same salt the former password stays valid, for the operator's 24 hours."""

    def __init__(self) -> None:
        self.present: tuple[bytes, str] | None = None
        self.former: str | None = None

    def set_password(self, salt: bytes, password: str) -> None:
        if self.present == (salt, password):
            return
        is_overlap = self.present is not None and self.present[0] == salt
        self.former = self.present[1] if is_overlap and self.present is not None else None
        self.present = salt, password

    def takes(self, password: str) -> bool:
        return self.present is not None and password in (self.present[1], self.former)


class World:
    """A Secret, brokers, and clients that read the Secret later; a pass may end after any step."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.brokers = Brokers()
        self.present = self.pending = self.memory = ""
        self.status: dict[str, object] = {}
        self.now = NOW
        self.made = 0

    def plan(self, rotation: Rotation | None) -> PasswordPlan:
        self.made += 1
        return plan_made_password(
            present=self.present,
            pending=self.pending,
            credential=credential_of(self.memory, self.status),
            is_known=self.brokers.present is not None,
            rotation=rotation,
            now=self.now,
            new_password=f"password {self.made}",
        )

    def operator(self, rotation: Rotation | None, *, steps: int = 9) -> None:
        """A pass that dies after so many steps."""
        plan = self.plan(rotation)
        if plan.pending:
            self.pending = plan.pending
            steps -= 1
        if plan.is_told and steps > 0:
            self.brokers.set_password(salt_of("uid", plan.credential), plan.password)
            steps -= 1
        if steps > 0:
            self.present, self.pending = plan.password, ""
            self.memory = credential_text(plan.credential)


def test_a_password_is_made_once_and_then_left_alone() -> None:
    """SEC-85: nothing changes by itself without a rotation."""
    world = World(0)
    world.operator(None)
    first = world.present
    assert world.brokers.takes(first)
    world.now += timedelta(days=1000)
    assert not world.plan(None).is_told
    assert world.plan(None).password == first


def test_both_passwords_are_valid_while_clients_change() -> None:
    """SEC-27: and only as long as the overlap."""
    world = World(0)
    world.operator(ROTATION)
    first, credential = world.present, credential_of(world.memory, {})
    assert next_look(credential, ROTATION) == NOW + timedelta(days=30)
    world.now += timedelta(days=30)
    world.operator(ROTATION)
    assert world.present != first
    assert world.brokers.takes(first)
    assert world.brokers.takes(world.present)
    world.now += timedelta(hours=24)
    world.operator(ROTATION)
    assert not world.brokers.takes(first)
    assert world.brokers.takes(world.present)


def test_without_an_overlap_the_former_password_ends_at_once() -> None:
    """SEC-84: rotation with overlap 0h; a Secret that is deleted asks for the same."""
    world, hard = World(0), Rotation(every=timedelta(days=1), overlap=timedelta(0))
    world.operator(hard)
    first = world.present
    world.now += timedelta(days=1)
    world.operator(hard)
    second = world.present
    assert not world.brokers.takes(first)
    world.status = {"credential": {"salt": credential_of(world.memory, {}).salt}}
    world.present = world.pending = world.memory = ""
    world.operator(hard)
    assert not world.brokers.takes(second)
    assert world.brokers.takes(world.present)


def test_a_credential_that_somebody_deleted_comes_back_as_it_was() -> None:
    """SEC-84: drift of credentials, as far as brokers tell it."""
    world = World(0)
    world.operator(ROTATION)
    first, world.brokers = world.present, Brokers()
    world.operator(ROTATION)
    assert world.present == first
    assert world.brokers.takes(first)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**32))
def test_no_client_is_left_with_a_password_that_nobody_takes(seed: int) -> None:
    """SEC-113: a hundred overlaps, an operator that dies anywhere, clients up to 20 h late."""
    world = World(seed)
    world.operator(ROTATION)
    client, read = world.present, world.now
    changes = 0
    while changes < 100:
        before = world.present
        world.operator(ROTATION, steps=world.random.choice((0, 1, 2, 3, 9, 9)))
        changes += world.present != before
        assert world.brokers.takes(client), f"seed {seed}"
        assert world.brokers.takes(world.present)
        world.now += timedelta(hours=world.random.randint(1, 5))
        if world.now - read > timedelta(hours=13):
            client, read = world.present, world.now
        if world.random.random() < 0.1:
            world.now += timedelta(days=29)
            client, read = world.present, world.now


def test_a_given_password_is_told_once_for_each_version_of_its_secret() -> None:
    """SEC-84: passwordSecretRef; a change of the Secret changes the password at once."""
    plan = plan_given_password(
        given="one", source="u/1", credential=Credential(), is_known=False, now=NOW
    )
    assert plan.is_told
    again = plan_given_password(
        given="one", source="u/1", credential=plan.credential, is_known=True, now=NOW
    )
    assert not again.is_told
    other = plan_given_password(
        given="two", source="u/2", credential=plan.credential, is_known=True, now=NOW
    )
    assert other.is_told
    assert salt_of("uid", other.credential) != salt_of("uid", plan.credential)


def test_passwords_are_not_shown_and_memory_survives_its_text() -> None:
    """SEC-114: neither a log nor a status has a password."""
    world = World(0)
    plan = world.plan(None)
    assert plan.password not in repr(plan)
    assert plan.password not in credential_text(plan.credential)
    assert credential_of(credential_text(plan.credential), {}) == plan.credential
    assert credential_of("not json", {"credential": {"salt": 7, "changed": "x"}}).salt == 7
