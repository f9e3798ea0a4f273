"""The consumer: reading records, alone or as a member of a group."""

from barnabas_client.consumer.columns import RecordColumns as RecordColumns
from barnabas_client.consumer.commits import CommitCallback as CommitCallback
from barnabas_client.consumer.consumer import Consumer as Consumer
from barnabas_client.consumer.interceptors import ConsumerInterceptor as ConsumerInterceptor
from barnabas_client.consumer.offsets_lookup import OffsetAndTimestamp as OffsetAndTimestamp
from barnabas_client.consumer.rebalance_listener import RebalanceListener as RebalanceListener
from barnabas_client.consumer.records import ConsumerRecord as ConsumerRecord
from barnabas_client.consumer.records import FetchedBatch as FetchedBatch
