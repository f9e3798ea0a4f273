"""Whether the time of a failed log-in tells if there is such a user (SEC-114).

    python -m tests.attack.login_timing [COUNT]

Measures both steps of SCRAM on the server, for a user who exists, with a wrong password, and for
one who does not, in random order, and compares the means by Welch's test. The slowest tenth of
either is left out, as it is the machine's. Ends with 1 where they differ for certain, by more than
anybody could see who is not in the same process.
"""

import math
import random
import statistics
import sys
import time
from collections.abc import Sequence
from typing import NamedTuple

from barnabas_broker.security.credentials import ScramCredentials
from barnabas_protocol.connection.sasl import (
    CredentialNeeded,
    SaslError,
    ScramSaslClient,
    ScramSaslServer,
)
from tests.support.login_bench import credential

COUNT = 10_000
T_MAX = 4.5
"""By chance alone, |t| is larger once in a hundred thousand times."""
SEEN_NS = 400
"""What this machine's own noise comes to; a frame over loopback varies by tens of microseconds."""
MECHANISM = "SCRAM-SHA-512"
USERS = 1_000


class Times(NamedTuple):
    """What the two steps of a log-in took, in nanoseconds."""

    first: int
    last: int


def failed_login(credentials: ScramCredentials, user: str, final: str) -> Times:
    """The times of a log-in whose proof is wrong; `final` is the client's message but the nonce."""
    server = ScramSaslServer(MECHANISM, "server-nonce")
    first = ScramSaslClient(MECHANISM, user, "", "client-nonce").first()
    began = time.perf_counter_ns()
    question = server.receive(first)
    assert isinstance(question, CredentialNeeded)
    server.provide(credentials.find(question.mechanism, question.username, 0))
    between = time.perf_counter_ns()
    try:
        question = server.receive(final.encode())
        assert isinstance(question, CredentialNeeded)
        server.provide(credentials.find(question.mechanism, question.username, 0))
    except SaslError:
        return Times(between - began, time.perf_counter_ns() - between)
    raise AssertionError("a wrong proof was taken")


class Difference(NamedTuple):
    """How far two means are apart, in nanoseconds and in their standard errors."""

    nanoseconds: float
    t: float


def welch(one: Sequence[int], other: Sequence[int]) -> Difference:
    """How far the means are apart."""
    kept = [sorted(times)[: len(times) * 9 // 10] for times in (one, other)]
    means = [statistics.fmean(times) for times in kept]
    errors = [statistics.variance(times) / len(times) for times in kept]
    difference = means[0] - means[1]
    return Difference(difference, difference / math.sqrt(sum(errors)))


def measured(count: int, seed: int) -> dict[str, Difference]:
    """Both steps, known users against unknown ones."""
    pick = random.Random(seed)
    model = credential("model", "right", salt=bytes(range(24)))
    credentials = ScramCredentials(b"own")
    stored = {(f"user-{number:04}", model.mechanism): model for number in range(USERS)}
    credentials.update(stored, b"secret")
    final = "c=biws,r=client-nonceserver-nonce,p=" + "A" * 86 + "=="
    times: dict[bool, list[Times]] = {True: [], False: []}
    order = [True, False] * (count + 100)
    pick.shuffle(order)
    for is_known in order:
        # Names as long as each other: what a client sends it knows anyway.
        user = f"{'user' if is_known else 'none'}-{pick.randrange(USERS):04}"
        times[is_known].append(failed_login(credentials, user, final))
    known, unknown = times[True][100:], times[False][100:]
    return {
        step: welch([getattr(one, step) for one in known], [getattr(one, step) for one in unknown])
        for step in Times._fields
    }


def main() -> int:
    """Print what the steps tell; 1 where they tell something."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else COUNT
    result = measured(count, 1)
    for step, value in result.items():
        print(f"{step} step: {value.nanoseconds:.0f} ns, t = {value.t:.1f}, {count} log-ins each")
    return int(
        any(abs(one.t) > T_MAX and abs(one.nanoseconds) > SEEN_NS for one in result.values())
    )


if __name__ == "__main__":
    sys.exit(main())
