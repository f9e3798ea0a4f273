"""Credentials that log-ins are verified by, and decoys that look like them."""

from collections import Counter
from dataclasses import replace

from barnabas_broker.metadata.scram_records import FormerKeys, ScramCredentialRecord
from barnabas_broker.security.credentials import CredentialKey, ScramCredentials
from barnabas_broker.security.sasl.passwords import ConfiguredUsers, fitting_keys
from tests.support.login_bench import credential

SHA_512 = "SCRAM-SHA-512"
KAFKA_SALT = b"1a2b3c4d5e6f7g8h9i0jklmnop"


def stored(
    *records: ScramCredentialRecord, secret: bytes = b"cluster", own: bytes = b"own"
) -> ScramCredentials:
    credentials = ScramCredentials(own)
    credentials.update({record.key: record for record in records}, secret)
    return credentials


def record(user: str, salt: bytes, iterations: int = 4096) -> ScramCredentialRecord:
    return ScramCredentialRecord(user, 2, iterations, salt, b"k" * 64, b"s" * 64)


def test_all_brokers_have_the_same_decoys() -> None:
    """SEC-26: of the cluster's secret; a broker's own serves until there is one."""
    alice = record("alice", bytes(24))
    one, other = stored(alice, own=b"1"), stored(alice, own=b"2")
    assert one.find(SHA_512, "nobody", 0) == other.find(SHA_512, "nobody", 0)
    assert one.find(SHA_512, "nobody", 0) == one.find(SHA_512, "nobody", 9)
    salts = {one.find(SHA_512, f"n{number}", 0).salt for number in range(100)}
    assert len(salts) == 100
    assert stored(secret=b"", own=b"1").find(SHA_512, "a", 0) != stored(secret=b"", own=b"2").find(
        SHA_512, "a", 0
    )
    assert one.find(SHA_512, "a", 0).salt != stored(alice, secret=b"x").find(SHA_512, "a", 0).salt


def test_no_password_fits_a_decoy() -> None:
    """SEC-26: nor does the decoy of a user who has a credential."""
    credentials = stored(credential("alice", "right"))
    for user in ("alice", "nobody"):
        found = credentials.find(SHA_512, user, 0)
        assert len(found.keys) == 2
        fitting = found.keys[0] if user == "alice" else None
        assert fitting_keys(SHA_512, found, "right") == fitting
        assert fitting_keys(SHA_512, found, "") is None


def test_decoys_take_after_the_credentials_that_there_are() -> None:
    """SEC-26: salts tell which tool made them, and iterations which policy; so must decoys."""
    ours = [record(f"a{number}", number.to_bytes(24), 8192) for number in range(10)]
    kafkas = [record(f"b{number}", KAFKA_SALT[:26]) for number in range(30)]
    credentials = stored(*ours, *kafkas)
    found = [credentials.find(SHA_512, f"nobody-{number}", 0) for number in range(1_000)]
    kinds = Counter((one.salt.isalnum() and one.salt.islower(), one.iterations) for one in found)
    texts, others = kinds[True, 4096], kinds[False, 8192]
    assert texts + others > 990  # a few numbers have no letter
    assert 150 < others < 350
    lengths = Counter(len(one.salt) for one in found if one.iterations == 4096)
    assert set(lengths) <= {23, 24, 25, 26}
    assert all(one.salt[:1] == b"1" for one in found if len(one.salt) == 26)


def test_decoys_of_most_names_stay_when_users_come_and_go() -> None:
    """SEC-26: what changes its salt has no credential."""
    some = [record(f"u{number}", bytes(24)) for number in range(20)]
    before, after = stored(*some), stored(*some, record("new", KAFKA_SALT))
    changed = sum(
        before.find(SHA_512, f"n{number}", 0) != after.find(SHA_512, f"n{number}", 0)
        for number in range(500)
    )
    assert changed < 60


def test_a_change_updates_what_is_known_of_all() -> None:
    """SEC-26: without looking at all of them again; the outcome is the same."""
    records = {one.key: one for one in (record("a", bytes(24)), record("b", KAFKA_SALT))}
    credentials = stored(*records.values())
    key: CredentialKey = ("b", 2)
    changed = {**records, key: record("b", bytes(16), 8192), ("c", 2): record("c", bytes(24))}
    del changed["a", 2]
    same: CredentialKey = ("b", 1)
    others = credentials.update(changed, b"cluster", [key, same, ("a", 2), ("c", 2)])
    assert others == [key, ("a", 2), ("c", 2)]
    assert credentials.update(changed, b"cluster") == []
    fresh = stored(*changed.values())
    for number in range(200):
        name = f"n{number}"
        assert credentials.find(SHA_512, name, 0) == fresh.find(SHA_512, name, 0)
    assert set(credentials.update({}, b"cluster")) == {key, ("c", 2)}
    assert credentials.find(SHA_512, "n", 0) == stored().find(SHA_512, "n", 0)


def test_what_is_prepared_is_used_when_it_is_taken_over() -> None:
    """SEC-26, BOOT-3: as a whole; log-ins meanwhile go by what was there before."""
    credentials = stored(record("a", bytes(24)))
    known = [credentials.find(SHA_512, name, 0) for name in ("a", "b", "n")]
    following = {one.key: one for one in (record("a", KAFKA_SALT), record("b", bytes(16)))}
    prepared = credentials.prepared(following, b"another")
    assert [credentials.find(SHA_512, name, 0) for name in ("a", "b", "n")] == known
    assert prepared.others == [("a", 2), ("b", 2)]
    credentials.take_over(prepared)
    fresh = stored(*following.values(), secret=b"another")
    for name in ("a", "b", "n"):
        assert credentials.find(SHA_512, name, 0) == fresh.find(SHA_512, name, 0)
    nobody = ScramCredentials(b"own")
    made = nobody.prepared(following, b"another")
    assert not nobody.is_loaded
    nobody.take_over(made)
    assert nobody.is_loaded


def test_former_keys_are_good_until_their_time() -> None:
    """SEC-27: then a false pair stands in, so that a log-in takes as long as before."""
    alice = ScramCredentialRecord(
        "alice", 2, 4096, b"salt", b"k", b"s", FormerKeys(1_000, b"fk", b"fs")
    )
    credentials = stored(alice)
    before, after = (credentials.find(SHA_512, "alice", now_ms).keys for now_ms in (999, 1_000))
    assert before == ((b"k", b"s"), (b"fk", b"fs"))
    assert after[0] == (b"k", b"s")
    assert len(after) == 2
    assert after[1] not in before


def test_passwords_are_verified_by_the_strongest_keys() -> None:
    """SEC-23: PLAIN names no mechanism; of a cluster without SHA-512, decoys are of SHA-256."""
    weak = credential("weak", "x", "SCRAM-SHA-256")
    both = stored(weak, credential("alice", "x"), credential("alice", "x", "SCRAM-SHA-256"))
    assert both.mechanism_for_passwords("alice") == SHA_512
    assert both.mechanism_for_passwords("weak") == "SCRAM-SHA-256"
    assert stored(weak).mechanism_for_passwords("nobody") == "SCRAM-SHA-256"
    assert stored().mechanism_for_passwords("nobody") == SHA_512


def test_a_password_of_nobody_takes_as_long_as_that_of_some_user() -> None:
    """SEC-26: hashing tells the mechanism, which must not tell that there is no such user."""
    weak = [credential(f"weak-{number}", "x", "SCRAM-SHA-256") for number in range(3)]
    both = [
        replace(credential("", "x", mechanism), user="both")
        for mechanism in (SHA_512, "SCRAM-SHA-256")
    ]
    mixed, again, strong = stored(*weak, *both), stored(*both, *weak), stored(*both)
    names = [f"nobody-{number}" for number in range(400)]
    drawn = [mixed.mechanism_for_passwords(name) for name in names]
    assert drawn == [again.mechanism_for_passwords(name) for name in names]
    assert 50 < drawn.count(SHA_512) < 150  # one user of four
    assert {strong.mechanism_for_passwords(name) for name in names} == {SHA_512}
    mixed.update({one.key: one for one in both}, b"cluster")
    assert {mixed.mechanism_for_passwords(name) for name in names} == {SHA_512}


def test_configured_users_have_their_passwords() -> None:
    """SEC-23: and nobody else has any."""
    users = ConfiguredUsers({"alice": "right", "é": "ü"})
    assert users.is_password_of("alice", "right")
    assert users.is_password_of("é", "ü")
    assert not users.is_password_of("alice", "wrong")
    assert not users.is_password_of("nobody", "")
