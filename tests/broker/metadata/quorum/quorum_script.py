"""A `World` in which nothing happens but what a test says, in the order in which it says so."""

import random

from barnabas_broker.metadata.quorum.effects import Swap
from barnabas_broker.metadata.quorum.messages import (
    DivergenceResponse,
    FetchRefused,
    PromiseRequest,
    PromiseResponse,
    QuorumFetchRequest,
    RecordsResponse,
    SnapshotResponse,
)
from barnabas_broker.metadata.quorum.node import QuorumNode, Role
from tests.broker.metadata.quorum.quorum_world import Packet, World

ANSWERS = (RecordsResponse, DivergenceResponse, SnapshotResponse, FetchRefused)


class Script(World):
    """Some nodes; records go one by one, and all that is written is flushed when a test says so."""

    def __init__(self, node_count: int, member_count: int | None = None) -> None:
        super().__init__(random.Random(0), node_count, member_count or node_count)
        for machine in self.machines:
            self.flush_all(machine.node_id)
            self.read(machine.node_id)
        self.packets.clear()

    def count_sent(self, available: int) -> int:
        return min(1, available)

    def node(self, node_id: int) -> QuorumNode:
        return self.machines[node_id].node

    def values(self, node_id: int) -> list[tuple[int, int]]:
        return [(entry.epoch, entry.value) for entry in self.machines[node_id].log.entries]

    def find(self, to: int, kind: type | tuple[type, ...]) -> Packet | None:
        return next((p for p in self.packets if p.to == to and isinstance(p.what, kind)), None)

    def carry(self, to: int, kind: type | tuple[type, ...]) -> Packet:
        """Deliver the oldest message of a kind to a node."""
        packet = self.find(to, kind)
        assert packet is not None, f"nothing of {kind} is on its way to {to}: {self.packets}"
        self.packets.remove(packet)
        self.tell(packet)
        return packet

    def flush_all(self, node_id: int) -> None:
        machine = self.machines[node_id]
        while machine.flushes:
            self.flush(machine, 0)

    def read(self, node_id: int) -> None:
        """Let a node read the arbiter's record now."""
        machine = self.machines[node_id]
        self.execute(machine, machine.node.record_read(self.arbiter))

    def win(self, node_id: int) -> None:
        """Let a node become the winner of the next epoch."""
        self.read(node_id)
        machine = self.machines[node_id]
        self.execute(machine, machine.node.take_over())
        packet = self.find(node_id, Swap)
        assert packet is not None and isinstance(packet.what, Swap)
        self.packets.remove(packet)
        self.swap(packet.what)
        self.read(node_id)

    def promise(self, leader: int, *promising: int) -> None:
        for node_id in promising:
            self.carry(node_id, PromiseRequest)
            self.flush_all(node_id)
            self.carry(leader, PromiseResponse)

    def lead(self, leader: int, *promising: int) -> None:
        """Let a node win the next epoch and lead with the promises of these."""
        self.packets.clear()
        self.win(leader)
        self.promise(leader, *promising)
        for _ in range(40):
            if self.node(leader).role is Role.LEADING:
                self.flush_all(leader)
                return
            self.flush_all(leader)
            self.packets[:] = [p for p in self.packets if p.to == leader or _is_of(p, leader)]
            for packet in list(self.packets):
                if packet in self.packets and not isinstance(packet.what, PromiseRequest):
                    self.packets.remove(packet)
                    self.tell(packet)
        raise AssertionError(f"node {leader} does not get to lead: {self.packets}")

    def fetch(self, follower: int, leader: int, count: int = 1) -> None:
        """Let a follower get that many answers of a leader, and acknowledge the last."""
        self.read(follower)
        self.packets[:] = [p for p in self.packets if not isinstance(p.what, QuorumFetchRequest)]
        machine = self.machines[follower]
        self.execute(machine, machine.node.retry_requests())
        for _ in range(count):
            self.carry(leader, QuorumFetchRequest)
            self.carry(follower, ANSWERS)
            self.flush_all(follower)
        self.carry(leader, QuorumFetchRequest)

    def add(self, leader: int, value: int) -> None:
        """Let the leader write a record and flush it."""
        self.write(self.machines[leader], value)
        self.flush_all(leader)

    def store(self, node_id: int) -> Swap:
        """Let a node's swap reach the arbiter; the reply is lost."""
        packet = self.find(node_id, Swap)
        assert packet is not None and isinstance(packet.what, Swap)
        self.packets.remove(packet)
        self.swap(packet.what)
        return packet.what

    def ask(self, node_id: int) -> None:
        """Let a node ask again what it waits for."""
        machine = self.machines[node_id]
        self.execute(machine, machine.node.retry_requests())

    def among(self, *node_ids: int) -> None:
        """Let these nodes talk to one another only, for a while."""
        for _ in range(8):
            for node_id in node_ids:
                self.flush_all(node_id)
                self.ask(node_id)
            for packet in list(self.packets):
                if packet.to in node_ids and isinstance(
                    packet.what, (QuorumFetchRequest, *ANSWERS)
                ):
                    self.packets.remove(packet)
                    self.tell(packet)

    def restart(self, node_id: int) -> None:
        """Crash and start again, with all that was written on the disk by luck."""
        machine = self.machines[node_id]
        machine.log.crash(len(machine.log.entries))
        machine.boot()
        self.execute(machine, machine.node.start())


def _is_of(packet: Packet, leader: int) -> bool:
    return isinstance(packet.what, QuorumFetchRequest) and packet.what.voter.node_id == leader
