"""Changes of topics: what is refused before brokers are asked."""

import asyncio
from typing import cast

import pytest

from barnabas_client.admin.admin import Admin
from barnabas_client.errors import UsageError
from barnabas_console.plans.topic_changes import ApplyTopic

NOBODY = cast(Admin, None)


@pytest.mark.parametrize("name", ["new one!", "", "..", "x" * 250])
def test_a_name_that_no_topic_can_have_is_refused_in_words(name: str) -> None:
    """CON-120: not by a broker's code, and while it is typed."""
    change = ApplyTopic(topic=name, is_new=True, bootstrap="b:9092")
    with pytest.raises(UsageError, match="a name has 1 to 249 letters"):
        asyncio.run(change.draft(NOBODY))
