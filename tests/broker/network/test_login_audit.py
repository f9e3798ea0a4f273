"""What the audit log is told of log-ins."""

import json

from barnabas_broker.network.login_audit import LoginAudit
from barnabas_broker.security.audit.audit import Audit
from barnabas_broker.security.audit.audit_log import AuditLog
from tests.support.login_bench import LoginBench, credential, log_in
from tests.support.virtual_loop import run_virtual


def test_log_ins_and_their_failures_are_told() -> None:
    """SEC-70, SEC-71: who, by which mechanism, over which listener; nothing that was sent."""

    async def run() -> None:
        async with LoginBench(credential("alice", "right")) as bench:
            log = AuditLog(bench.stage.clock, 5)
            bench.stage.observer = LoginAudit(Audit(log))
            for user, password in (("alice", "right"), ("alice", "canary-password")):
                await log_in(await bench.connect(), user, password)
            lines = [log.text_of(line) for line in log.take()]
        good, bad = (json.loads(line) for line in lines)
        for line, outcome in ((good, "success"), (bad, "failure")):
            assert line["event"] == "login"
            assert line["outcome"] == outcome
            assert line["principal"] == "User:alice"
            assert line["mechanism"] == "SCRAM-SHA-512"
            assert line["listener"] == "PLAINTEXT"
            assert line["host"] == "127.0.0.1"
        assert "canary" not in "".join(lines)

    run_virtual(run())
