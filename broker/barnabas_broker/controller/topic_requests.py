"""CreateTopics as the wire has it, in front of the controller's command.

Source: TOP-1 to TOP-8. Both clients' requests and those of brokers that need a topic come this way.
"""

from __future__ import annotations

from collections import Counter

from barnabas_broker.config.dynamic import DynamicConfig
from barnabas_broker.controller.controller import Controller
from barnabas_broker.controller.mutation_quota import MutationQuota
from barnabas_broker.controller.topics import MayDoToTopic, NewTopic, NewTopicResult, may_all
from barnabas_broker.metadata.metadata_log import METADATA_PARTITION
from barnabas_protocol.acl import AclOperation
from barnabas_protocol.errors import ErrorCode, KafkaError
from barnabas_protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)

_Described = dict[frozenset[tuple[str, str]], list[CreatableTopicConfigs]]


async def create_topics(
    controller: Controller,
    request: CreateTopicsRequest,
    quota: MutationQuota | None = None,
    may: MayDoToTopic = may_all,
) -> CreateTopicsResponse:
    """Create each topic on its own, as far as rights and quota of who wants them go."""
    names = Counter(topic.name for topic in request.topics)
    # What nobody may create is refused for that, by the controller.
    allowed = {
        name
        for name, count in names.items()
        if count == 1 and (name == METADATA_PARTITION.topic or may(AclOperation.CREATE, name))
    }
    asked = [_new_topic(topic) for topic in request.topics if topic.name in allowed]
    results = await controller.create_topics(asked, request.validate_only, quota)
    # Topics made together mostly have the same settings: each set of them is described once.
    described: _Described = {}
    topics = [
        _answer(controller.dynamic_config, result, described)
        if result.error is not None or may(AclOperation.DESCRIBE_CONFIGS, result.name)
        else _without_settings(result)
        for result in results
    ]
    topics += [
        CreatableTopicResult(
            name=name,
            error_code=ErrorCode.INVALID_REQUEST,
            error_message="Duplicate topic name.",
        )
        for name, count in names.items()
        if count > 1
    ]
    topics += [
        CreatableTopicResult(
            name=name,
            error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED,
            error_message="Authorization failed.",
        )
        for name, count in names.items()
        if count == 1 and name not in allowed
    ]
    return CreateTopicsResponse(topics=topics)


def _new_topic(topic: CreatableTopic) -> NewTopic:
    return NewTopic(
        name=topic.name,
        partition_count=topic.num_partitions,
        replication_factor=topic.replication_factor,
        assignments=[
            (assignment.partition_index, assignment.broker_ids) for assignment in topic.assignments
        ],
        configs={config.name: config.value for config in topic.configs},
    )


def _answer(
    dynamic: DynamicConfig, result: NewTopicResult, described: _Described
) -> CreatableTopicResult:
    if result.error is not None:
        return CreatableTopicResult(
            name=result.name,
            error_code=result.error.code,
            error_message=result.error.message,
        )
    overrides = frozenset(result.configs.items())
    configs = described.get(overrides)
    if configs is None:
        configs = described[overrides] = _describe(dynamic, result)
    return CreatableTopicResult(
        name=result.name,
        topic_id=result.topic_id,
        error_message=None,  # and not the schema's default, which is empty
        num_partitions=result.partition_count,
        replication_factor=result.replication_factor,
        configs=configs,
    )


def _without_settings(result: NewTopicResult) -> CreatableTopicResult:
    """The result for who may create a topic, but not see its settings (KIP-525)."""
    return CreatableTopicResult(
        name=result.name,
        topic_id=result.topic_id,
        error_message=None,
        topic_config_error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    )


def _describe(dynamic: DynamicConfig, result: NewTopicResult) -> list[CreatableTopicConfigs]:
    return [
        CreatableTopicConfigs(
            name=config.key,
            value=config.value,
            read_only=config.is_read_only,
            config_source=config.source,
            is_sensitive=config.is_sensitive,
        )
        for config in dynamic.describe_topic(result.configs)
    ]


def failed(request: CreateTopicsRequest, error: KafkaError) -> CreateTopicsResponse:
    """The same error for every topic."""
    return CreateTopicsResponse(
        topics=[
            CreatableTopicResult(
                name=topic.name, error_code=error.code, error_message=error.message
            )
            for topic in request.topics
        ]
    )
