"""Where Barnabas answers otherwise than Apache Kafka 4.1.1, and why.

Requests that Apache Kafka answers with UNKNOWN_SERVER_ERROR or not at all, because it trips over
them, are not in the scripts: nobody can want the same.
"""

import re
from typing import NamedTuple


class KnownDifference(NamedTuple):
    """Matches by the script's name, the step's title and the path of the field."""

    script: str
    step: str
    path: str
    reason: str

    def covers(self, script: str, step: str, path: str) -> bool:
        """Whether the difference at this place is this one."""
        return all(
            re.fullmatch(pattern, value)
            for pattern, value in ((self.script, script), (self.step, step), (self.path, path))
        )


KNOWN_DIFFERENCES: tuple[KnownDifference, ...] = (
    KnownDifference(
        ".*",
        ".*",
        r".*\.\[barnabas\..*\]",
        "settings of our own, which Apache Kafka does not have",
    ),
    KnownDifference(
        ".*",
        ".*",
        r".*\.\[(group\.)?consumer\.((min|max)\.)?(assignment|regex\.refresh)\.interval\.ms\].*",
        "settings of Kafka 4.4 (KIP-1263), which 4.1 does not have",
    ),
    KnownDifference(
        ".*",
        ".*",
        r".*\.\[(group\.)?share\.((min|max)\.)?(assignment\.interval\.ms|renew\.acknowledge\.enable"
        r"|initialize\.retry\.interval\.ms|delivery\.count\.limit|partition\.max\.record\.locks)\].*"
        r"|.*\.\[share\.coordinator\.cold\.partition\.snapshot\.interval\.ms\].*",
        "settings of share groups since Kafka 4.2, which 4.1 does not have",
    ),
    KnownDifference(
        ".*",
        ".*",
        r".*\.\[errors\.deadletterqueue\..*\].*",
        "settings of dead letters (KIP-1191), which Kafka has since 4.4",
    ),
    KnownDifference(
        "describe_whole_broker",
        ".*",
        r".*\.\[(super\.users|allow\.everyone\.if\.no\.acl\.found)\]",
        "settings of the authorizer: in Kafka a class of its own reads them, and nobody sees them",
    ),
    KnownDifference(
        "describe_whole_broker",
        ".*",
        r".*\.\[(producer\.id\.expiration\.check\.interval|server\.max\.startup\.time)\.ms\].*",
        "settings that Kafka takes and shows to nobody, as it does with all for its own tests",
    ),
    KnownDifference(
        "find_coordinator",
        "type 2 .*",
        ".*",
        "share coordinators are for brokers: the listener of clients does not tell where they are",
    ),
    KnownDifference(
        "client_telemetry",
        ".* GET_TELEMETRY_SUBSCRIPTIONS .*",
        "subscription_id",
        "a checksum of what is requested, in the order of the names; Java's is of a hash set",
    ),
    KnownDifference(
        "consumer_group_life",
        "revoking .*",
        r".*\.assignment\.topic_partitions.*",
        "what a member is to let go is shown while it has it, as Kafka 4.4 does (CG-13)",
    ),
    KnownDifference(
        "describe_whole_broker",
        ".*",
        r".*\.\[socket\.listen\.backlog\.size\]\.value",
        "1024 by default: a burst of connections overflows Apache Kafka's 50",
    ),
    KnownDifference(
        "produce_.*",
        ".*",
        r".*\.(error_message|batch_index_error_message)",
        "why a batch was refused is said in our own words, also where Apache Kafka says nothing",
    ),
    KnownDifference(
        "produce_unread",
        ".*",
        ".*",
        "records are not unpacked without need (protocol.md 7), and a client's batch with "
        "LogAppendTime is refused (LOG-6)",
    ),
    KnownDifference(
        "broken_requests",
        "(array of -2|bad utf-8)",
        "",
        "malformed bytes are refused; Java reads other negative lengths as null and repairs text",
    ),
    KnownDifference(
        "fetch_limits",
        ".*",
        r".*\.records\[\d+\]",
        "whole batches only; Apache Kafka fills the rest of the limit with a part of the next",
    ),
    KnownDifference(
        "fetch_limits",
        "at most .* isolation 1 .*",
        r".*\.aborted_transactions",
        "under read_committed the list is never null (protocol.md 8)",
    ),
    KnownDifference(
        "fetch_limits",
        "replica .*",
        ".*",
        "a node alone has no followers to refuse",
    ),
    KnownDifference(
        "produce_timestamps",
        "flagged append time .*",
        r".*\.record_errors",
        "the flag is the batch's, so no record is named",
    ),
    KnownDifference(
        "create_topics_errors",
        "spaces .*",
        r".*\.value",
        "a value is shown as it is read, without the blanks around it",
    ),
    KnownDifference(
        "describe_whole_broker",
        ".*",
        r".*\.\[((advertised\.)?listeners|listener\.security\.protocol\.map|log\.dirs?"
        r"|controller\.(listener\.names|quorum\.voters)|process\.roles|node\.id"
        r"|(share\.coordinator|transaction)\.state\..*)\].*",
        "what is set in the files of the two brokers differs",
    ),
    KnownDifference(
        "describe_whole_broker",
        ".*",
        r".*\.\[(admin\.http\..*|arbiter\..*|cluster\.id|console\.url|queued\.max\.request\.bytes"
        r"|broker\.(heartbeat\.interval|session\.timeout|fence\.on\.refused)\.ms"
        r"|controller\.quorum\.lost\.ms|(leader|follower)\.replication\.throttled\.rate"
        r"|metadata\.(member\.(lost\.ms|leaving)|members|min\.members))\].*",
        "settings and defaults of our own (REG-5, operator.md)",
    ),
    KnownDifference(
        "describe_whole_broker",
        ".*",
        r".*\.\[sasl\.(enabled\.mechanisms|jaas\.config|mechanism\.inter\.broker\.protocol)\]"
        r"\.read_only",
        "how brokers log in is read at their start alone: a change would not reach who logs in",
    ),
    KnownDifference(
        "broker_configs",
        "default in the end .*",
        r".*\.\[(x\.y|retention\.ms)\]",
        "settings that no broker has are not shown; Apache Kafka shows them without their values",
    ),
    KnownDifference(
        "describe_configs",
        ".*",
        r".*\[node\.id\]\.synonyms.*",
        "node.id may be left out: it has a default (NODE-3)",
    ),
    KnownDifference(
        ".*",
        ".*",
        r".*\.\[(consumer\.|share\.(?!coordinator)|streams\.).*\]\.synonyms.*",
        "settings of a group list the broker's and their defaults, as Kafka does since 4.3",
    ),
)
