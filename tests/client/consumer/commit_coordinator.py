"""A coordinator that takes commits as a test tells it to."""

import asyncio
from typing import Any

from barnabas_client.errors import (
    DisconnectedError,
)
from barnabas_protocol.errors import ErrorCode
from barnabas_protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)


class Coordinator:
    """Answers commits with the codes of a list, then with success."""

    def __init__(self, *codes: ErrorCode, takes_ms: int = 0) -> None:
        self.codes = list(codes)
        self.takes_ms = takes_ms
        self.committed: list[tuple[int, int]] = []

    async def __call__(self, request: Any, version: int) -> Any:
        if self.takes_ms:
            await asyncio.sleep(self.takes_ms / 1000)
        assert isinstance(request, OffsetCommitRequest)
        code = self.codes.pop(0) if self.codes else ErrorCode.NONE
        if code is ErrorCode.NETWORK_EXCEPTION:
            raise DisconnectedError("gone")
        if code is ErrorCode.NONE:
            offset = request.topics[0].partitions[0].committed_offset
            self.committed.append((request.generation_id_or_member_epoch, offset))
        return OffsetCommitResponse(
            topics=[
                OffsetCommitResponseTopic(
                    name=each.name if version < 10 else "",
                    topic_id=each.topic_id,
                    partitions=[
                        OffsetCommitResponsePartition(
                            partition_index=row.partition_index, error_code=code
                        )
                        for row in each.partitions
                    ],
                )
                for each in request.topics
            ]
        )
