"""ACLs and questions about them that meet often: few names, of which many begin with others."""

from hypothesis import strategies as st

from barnabas_broker.security.acl.acl import Acl
from barnabas_protocol.acl import AclOperation, AclPermission, AclResourceType, PatternType

NAMES = ("*", "a", "ab", "abc", "abd", "b", "*a", "ä", "äb", "🦆", "🦆x", "kafka-cluster")
PRINCIPALS = ("User:alice", "User:bob", "User:*", "User:a:b", "Group:alice", "User:ANONYMOUS")
HOSTS = ("10.0.0.1", "10.0.0.2", "10.1.0.1", "11.0.0.1", "::1", "2001:db8::1", "", "unknown")
ACL_HOSTS = (
    *("*", "10.0.0.1", "10.0.0.0/24", "10.0.0.0/8", "0.0.0.0/0", "::/0", "2001:db8::/32", "::1"),
    *("0:0:0:0:0:0:0:1", "10.0.0.2/32", "unknown"),
)
OPERATIONS = tuple(one for one in AclOperation if one >= AclOperation.ALL)
TYPES = (AclResourceType.TOPIC, AclResourceType.GROUP)

acls = st.builds(
    Acl,
    st.sampled_from(TYPES),
    st.sampled_from(NAMES),
    st.sampled_from((PatternType.LITERAL, PatternType.PREFIXED)),
    st.sampled_from(PRINCIPALS),
    st.sampled_from(ACL_HOSTS),
    st.sampled_from(OPERATIONS),
    st.sampled_from((AclPermission.DENY, AclPermission.ALLOW, AclPermission.ALLOW)),
)
acl_sets = st.lists(acls, max_size=12).map(lambda drawn: list(dict.fromkeys(drawn)))
askers = st.tuples(st.sampled_from(PRINCIPALS), st.sampled_from(HOSTS))
operations = st.sampled_from(OPERATIONS[1:])
types = st.sampled_from(TYPES)
names = st.sampled_from((*NAMES, "", "abcd", "äbc", "c", "hardcode"))
