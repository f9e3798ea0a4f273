"""What befalls a cluster, drawn from a seed: processes, machines, links, clocks, the arbiter."""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable
from typing import NamedTuple

from barnabas_broker.arbiter.arbiter import ArbiterRecord
from barnabas_broker.controller import eligible_replicas
from barnabas_broker.metadata.image import MetadataImage
from tests.simulation.cluster.client import CLIENTS_HOST
from tests.simulation.cluster.cluster import Cluster
from tests.simulation.cluster.node import (
    UNLIMITED_BYTES,
    Node,
    has_lost_directory,
    is_controller,
)
from tests.simulation.cluster.plan import FEATURE_OF, Event, Feature, Hardship, Plan
from tests.support.arbiter_faults import Fault
from tests.support.process_loop import Life
from tests.support.simulated_random import SimulatedRandom

ORDERS = "orders"
CLIENT_HOSTS_SHARE = 4
JUMP_MS_MAX = 100_000
SPARING = frozenset(
    (
        "kill",
        "kill_at_an_operation",
        "strike_after_an_answer",
        "stop",
        "stand_still",
        "isolate",
        "cut_a_link",
        "cut_one_way",
        "slow_down",
        "slow_a_link",
        "fill_a_disk",
        "break_a_directory",
    )
)
"""What may take a broker away does not happen while another one is lost."""


class Loss(NamedTuple):
    """That a node lost what it had, or will if its disk comes to fail."""

    node: Node
    broker_epoch: int
    failure_count: int | None  # of its disk before; None where it was lost at once

    @property
    def is_avoided(self) -> bool:
        """Whether the disk was well again before anybody had used it."""
        disk = self.node.disk
        return disk.failure_count == self.failure_count and not disk.is_about_to_fail


def log_end_of(node: Node) -> int:
    """Where a node's metadata log ends, with what is not committed."""
    assert node.server is not None
    return node.server.control.quorum.log.log_end_offset


class Faults:
    """Does what a plan's events say; whom it befalls is drawn from the event's own seed."""

    def __init__(self, cluster: Cluster, plan: Plan) -> None:
        self._cluster = cluster
        self._random = SimulatedRandom(0)
        self._plan = plan
        self._hardship = plan.hardship
        # The last one, until the cluster knows of it; see `may_lose_another`.
        self._lost: Loss | None = None
        self._true_record: ArbiterRecord | None = None
        self._blank: list[Node] = []  # whose disks were lost while the arbiter had no record
        self.founders: set[int] = set()  # those of them that founded the cluster again
        self._focus = plan.draws("focus").integer(1 << 20)
        # Whether a partition is about to be left to one node.
        self.is_leaving_one: Callable[[], bool] = lambda: False
        self.done: Counter[str] = Counter()

    async def run(self, events: Iterable[Event], length_ms: int) -> None:
        """Let everything happen at its time."""
        loop = self._cluster.loop
        start_seconds = loop.time()
        for event in events:
            await asyncio.sleep(start_seconds + event.at_ms / 1000 - loop.time())
            self._befall(event)
        await asyncio.sleep(max(0, start_seconds + length_ms / 2000 - loop.time()))

    def _befall(self, event: Event) -> None:
        self._random = SimulatedRandom(event.seed)
        feature = FEATURE_OF.get(event.fault)
        if feature is not None and not self._plan.has(feature):
            return
        if event.fault in SPARING and not self._may_take_away():
            return
        self.done[event.fault] += 1
        getattr(self, f"_{event.fault}")()

    def end_all(self) -> None:
        """Heal everything, and start what is down."""
        cluster = self._cluster
        cluster.trace.tell("all faults end")
        self._bring_the_arbiter_back()
        self._bring_the_newest_record_back()
        for arbiter in cluster.arbiters:
            arbiter.client.is_cut_off = False
        cluster.network.slow_share = 0
        cluster.network.heal()
        self._repair_disks()
        for node in cluster.nodes:
            node.go_on()
            node.disk.forget_failures()
            node.disk.operations_left = -1
            cluster.network.forget_strikes(node.host)
            if not node.is_up:
                node.start()

    def _bring_the_newest_record_back(self) -> None:
        """What an operator does whose brokers say that the record is gone, old or another's.

        Who has founded the cluster again had an empty disk, and gets one once more.
        """
        store, record = self._cluster.store, self._cluster.store.stored.record
        copies = [*store.copies, *([self._true_record] if self._true_record else [])]
        self._true_record = None
        self._cluster.network.show_all()
        if not copies:
            return
        copies = [copy for copy in copies if copy.histories == copies[-1].histories]
        newest = max(copies, key=lambda one: (one.controller_epoch, one.renewed_ms))
        is_foreign = record is not None and record.histories != newest.histories
        if is_foreign:
            self._cluster.trace.tell("the cluster was founded again")
            self.done["(founded again)"] += 1
            for node in self._blank:
                node.lose_disk()
                self.founders.add(node.node_id)
        if is_foreign or record is None or record.controller_epoch < newest.controller_epoch:
            store.replace(newest)

    def _below(self, number: int) -> int:
        return self._random.integer(number)

    def _some(self, nodes: list[Node]) -> Node | None:
        return nodes[self._below(len(nodes))] if nodes else None

    def _some_up(self) -> Node | None:
        roles = [node for node in self._roles() if node.is_up]
        return self._some(roles or [node for node in self._cluster.nodes if node.is_up])

    def _roles(self) -> list[Node]:
        """Whom most faults befall: leader and follower of one partition, and the controller.

        Nobody in particular in most stories, and now and then in all.
        """
        image = self._newest_image()
        names = [] if image is None else sorted(image.topics.by_name)
        if image is None or not names or not self._plan.has(Feature.FOCUS) or not self._below(4):
            return []
        name = ORDERS if ORDERS in names and self._focus % 2 else names[self._focus % len(names)]
        partitions = image.topics.by_name[name].partitions
        partition = partitions[self._focus % len(partitions)]
        followers = [node for node in partition.replicas if node != partition.leader]
        nodes = self._cluster.nodes
        roles = [nodes[node_id] for node_id in (partition.leader, *followers[:1]) if node_id >= 0]
        return roles + [node for node in nodes if is_controller(node) and node not in roles]

    # Processes and machines.

    def _kill(self) -> None:
        if node := self._some_up():
            node.kill()

    def _kill_at_an_operation(self) -> None:
        """The moment is a number of disk operations from now: every step of a protocol is hit."""
        if node := self._some_up():
            node.disk.operations_left = node.disk.operation_count + 1 + self._below(100)

    def _strike_after_an_answer(self) -> None:
        """What a node has just said was relied on by others: it dies, or stands still.

        What is rarely asked for is as likely as what is asked for all the time.
        """
        counts = self._cluster.network.request_counts
        if not (node := self._some_up()) or not counts:
            return
        left = self._random.fraction() * sum(1 / count for count in counts.values())
        for api_key in sorted(counts):
            left -= 1 / counts[api_key]
            if left <= 0:
                break
        strike = node.kill if self._below(4) else node.stand_still
        self._cluster.network.strike_after(node.host, api_key, strike)

    def _lose_power(self) -> None:
        node = self._some(self._cluster.nodes)
        if node is None:
            return
        if self._hardship is Hardship.POWER and self.may_lose_another():
            node.lose_power()
        elif self._has_eligible_replicas() or self._is_everything_redundant():
            self._note_lost(node)
            node.lose_power()

    def _has_eligible_replicas(self) -> bool:
        """Whether power may be lost though others are away, and by whom it was not lost yet.

        All that was acknowledged is in two page caches then: of the ISR, or of those that are
        eligible. What the last one that lost power had must be with two again.
        """
        image = self._newest_image()
        return image is not None and self._is_eligible_kept(image) and self._is_made_good(image)

    def _is_eligible_kept(self, image: MetadataImage) -> bool:
        return eligible_replicas.is_on(image) and self._plan.in_sync_min > 1

    def _is_made_good(self, image: MetadataImage) -> bool:
        """Whether all that the lost node had is with two in sync again, of whom it may be one."""
        if self._lost is None or self._lost.is_avoided:
            self._lost = None
            return True
        broker = image.brokers.get(self._lost.node.node_id)
        if broker is not None and broker.epoch <= self._lost.broker_epoch:
            return False
        if any(
            len(partition.isr) < 2
            for topic in image.topics.by_name.values()
            for partition in topic.partitions
        ):
            return False
        self._lost = None
        return True

    def _may_take_away(self) -> bool:
        """Whether another node may go; with eligible leader replicas any may, at any time."""
        image = self._newest_image()
        if image is not None and self._is_eligible_kept(image):
            return True
        return self.may_lose_another()

    def may_lose_another(self) -> bool:
        """Whether the cluster knows of the node that lost something, if there is one.

        Until then it is in the ISRs, with less than it had. If all others ended meanwhile, even
        cleanly, or were cut off and fenced, it would be the last of them, and lead when it is back:
        no broker can tell a kill from lost power.
        """
        if self._lost is None or self._lost.is_avoided:
            self._lost = None
            return True
        node = self._lost.node
        image = self._newest_image()
        if image is None:
            return False
        if self._is_eligible_kept(image):
            return self._is_made_good(image)
        broker = image.brokers.get(node.node_id)
        is_known = broker is None or broker.epoch > self._lost.broker_epoch
        if is_known or not any(
            node.node_id in partition.isr
            for topic in image.topics.by_name.values()
            for partition in topic.partitions
        ):
            self._lost = None
        return self._lost is None

    def forget_harmless_failure(self) -> None:
        """Forget a failure of a disk that a broker has long gone on after, with all directories.

        What failed was none of its data: it keeps its registration, and nobody will ever know.
        """
        lost = self._lost
        if lost is None or lost.failure_count is None or lost.node.disk.is_about_to_fail:
            return
        server = lost.node.server
        if lost.node.is_ready and server is not None and not has_lost_directory(server):
            self._lost = None

    def _note_lost(self, node: Node, failure_count: int | None = None) -> None:
        image = self._newest_image()
        broker = None if image is None else image.brokers.get(node.node_id)
        self._lost = Loss(node, -1 if broker is None else broker.epoch, failure_count)

    def led_by_lost_disks(self) -> dict[str, list[int]]:
        """Partitions without a leader whose last member of the ISR has founded the cluster again.

        That stopped the others before the controller could know of the lost disk. At level 1, and
        where one in sync is enough, nobody can tell then who has everything; all had, as a disk is
        lost only while all are in sync.
        """
        image = self._newest_image()
        found: dict[str, list[int]] = {}
        for name, topic in {} if image is None else image.topics.by_name.items():
            for index, partition in enumerate(topic.partitions):
                # At level 2 who comes back with less leaves the ISR, and is remembered.
                last = partition.isr or partition.last_known_elr or (-1,)
                is_led = partition.leader >= 0 or partition.eligible_leader_replicas
                if not is_led and self.founders.issuperset(last):
                    found.setdefault(name, []).append(index)
        return found

    def _newest_image(self) -> MetadataImage | None:
        images = [node.server.image for node in self._cluster.nodes if node.server is not None]
        return max(images, key=lambda image: image.offset, default=None)

    def _is_everything_redundant(self) -> bool:
        """Whether everybody runs and is in sync, and will for now: one may lose what it has."""
        nodes = self._cluster.nodes
        image = self._newest_image()
        if image is None or len(nodes) < 3 or not self.may_lose_another():
            return False
        if self.is_leaving_one():
            return False
        if self._cluster.network.is_troubled or not all(self._is_well(node) for node in nodes):
            return False
        if any(log_end_of(node) > image.offset + 1 for node in nodes):
            return False  # what is not committed may take somebody out of an ISR once it is
        return all(
            len(partition.isr) == len(partition.replicas) > 1 and not partition.is_reassigning
            for topic in image.topics.by_name.values()
            for partition in topic.partitions
        )

    def _lose_a_disk(self) -> None:
        """One of those that hold nothing alone, neither of records nor of metadata."""
        node = self._some(self._cluster.nodes)
        if node is not None and self._is_everything_redundant() and self._has_all_seats():
            self._note_lost(node)
            node.lose_disk()
            if self._cluster.store.stored.record is None:
                # It may found the cluster again: its clients would see an empty one.
                node.start()
                self._blank.append(node)
                self._cluster.network.hide(node.host, CLIENTS_HOST)

    def _lose_a_directory(self) -> None:
        """One of a node's several disks is replaced; the others stay what they are."""
        node = self._some([node for node in self._cluster.nodes if len(node.directories) > 1])
        if node is not None and self._is_everything_redundant() and self._has_all_seats():
            self._note_lost(node)
            node.lose_directory(node.directories[self._below(len(node.directories))])

    def _may_miss_a_disk(self, node: Node) -> bool:
        """Whether a disk may fail; with page caches only it counts as lost power does."""
        if self._hardship is Hardship.POWER:
            return True
        if not self.may_lose_another():
            return False
        self._note_lost(node, node.disk.failure_count)
        return True

    def _fail_an_fsync(self) -> None:
        """One fsync of some file fails: what was written since the last one may be gone."""
        if (node := self._some_up()) and self._may_miss_a_disk(node):
            self._cluster.trace.tell(node.host, "has an fsync that fails")
            node.disk.has_failed = True
            node.disk.fail("sync", node.directories[self._below(len(node.directories))])

    def _has_all_seats(self) -> bool:
        """Whether every member of the metadata log has its disk still, and one can be missed."""
        record = self._cluster.store.stored.record or self._true_record
        if record is None or len(record.members) < 3:
            return False
        nodes = self._cluster.nodes
        for member in record.members:
            server = nodes[member.node_id].server
            if server is None or member.directory_id not in {
                directory.directory_id for directory in server.logs.directories
            }:
                return False
        return True

    def _fill_a_disk(self) -> None:
        if node := self._some_up():
            self._cluster.trace.tell(node.host, "has a full disk")
            node.disk.capacity_bytes = node.disk.used_bytes + self._below(5_000)

    def _break_a_directory(self) -> None:
        if (node := self._some_up()) and self._may_miss_a_disk(node):
            directories = node.properties["log.dirs"].split(",")
            prefix = directories[self._below(len(directories))]
            self._cluster.trace.tell(node.host, "cannot use", prefix)
            node.disk.failing_prefix = prefix

    def _repair_disks(self) -> None:
        for node in self._cluster.nodes:
            node.disk.failing_prefix = ""
            node.disk.capacity_bytes = UNLIMITED_BYTES

    def _is_well(self, node: Node) -> bool:
        disk = node.disk
        return (
            node.is_ready
            and node.process is not None
            and node.process.life is Life.RUNS
            and not disk.is_bad
            and disk.operations_left < 0
            and not self._cluster.network.will_strike(node.host)
        )

    def _stop(self) -> None:
        if node := self._some_up():
            node.stop()

    def _start(self) -> None:
        if node := self._some([node for node in self._cluster.nodes if not node.is_up]):
            node.start()

    def _stand_still(self) -> None:
        if node := self._some_up():
            node.stand_still()

    def _go_on(self) -> None:
        for node in self._cluster.nodes:
            node.go_on()

    # Links.

    def _isolate(self) -> None:
        """Cut a node off from the others, perhaps not from its clients, nor from the arbiter."""
        nodes = self._cluster.nodes
        node = nodes[self._below(len(nodes))]
        self._cluster.trace.tell(node.host, "is cut off")
        for other in nodes:
            if other is not node:
                self._cluster.network.cut(node.host, other.host)
        if self._below(2):
            self._cut_arbiter(node)

    def _cut_arbiter(self, node: Node) -> None:
        for arbiter in self._cluster.arbiters:
            if arbiter.process is node.process:
                arbiter.client.is_cut_off = True

    def _pair(self) -> tuple[str, str]:
        roles = [node.host for node in self._roles()]
        if len(roles) > 1:
            self._random.shuffle(roles)
            return roles[0], roles[1]
        hosts = [node.host for node in self._cluster.nodes]
        if not self._below(CLIENT_HOSTS_SHARE):
            hosts.append(CLIENTS_HOST)
        self._random.shuffle(hosts)
        return (hosts * 2)[0], (hosts * 2)[1]

    def _cut_a_link(self) -> None:
        pair = self._pair()
        self._cluster.trace.tell("no link between", *pair)
        self._cluster.network.cut(*pair)

    def _cut_one_way(self) -> None:
        pair = self._pair()
        self._cluster.trace.tell("nothing gets from and to", *pair)
        self._cluster.network.cut_one_way(*pair)

    def _slow_a_link(self) -> None:
        """Whoever gets the metadata by it lags, though its session does not end."""
        pair = self._pair()
        each_way_ms = 100 + self._below(500)
        self._cluster.trace.tell("slow link between", *pair, each_way_ms)
        self._cluster.network.slow_link(*pair, each_way_ms)
        if self._below(2):
            self._cluster.network.slow_link(*reversed(pair), each_way_ms)

    def _heal_a_link(self) -> None:
        """One only: what is cut off elsewhere stays so."""
        troubled = self._cluster.network.troubled_links
        if troubled:
            pair = troubled[self._below(len(troubled))]
            self._cluster.trace.tell("a link heals between", *pair)
            self._cluster.network.heal_link(*pair)

    def _heal(self) -> None:
        self._cluster.trace.tell("links heal")
        self._cluster.network.heal()
        for arbiter in self._cluster.arbiters:
            arbiter.client.is_cut_off = False

    def _reset_links(self) -> None:
        pair = self._pair()
        self._cluster.trace.tell("connections are lost between", *pair)
        self._cluster.network.reset_links(*pair)

    def _slow_down(self) -> None:
        network = self._cluster.network
        network.slow_share = (0, 0.02, 0.2)[self._below(3)]
        network.slow_latency_ms = (50, 500)[self._below(2)]

    # The arbiter and clocks.

    def _take_the_arbiter_away(self) -> None:
        self._cluster.trace.tell("the arbiter is away")
        self._cluster.store.is_away = True

    def _bring_the_arbiter_back(self) -> None:
        self._cluster.store.is_away = False
        self._cluster.store.slow_down(0)

    def _slow_the_arbiter(self) -> None:
        """Its disk takes longer for a swap than a broker that stops waits for it."""
        self._cluster.trace.tell("the arbiter's disk is slow")
        self._cluster.store.slow_down(500 + self._below(5_000))

    def _lose_the_record(self) -> None:
        """What the arbiter's store had is gone; somebody has a copy of it.

        Perhaps with the disk of a broker, on whose machine it was.
        """
        store = self._cluster.store
        if store.stored.record is not None and self._true_record is None:
            self._cluster.trace.tell("the arbiter's record is lost")
            self._true_record = store.stored.record
            store.replace(None)
            if self._below(4):
                self._lose_a_disk()

    def _restore_an_old_record(self) -> None:
        """A copy of the record from some time ago is put back, as from a backup of the store."""
        store = self._cluster.store
        now = store.stored.record
        copies = [c for c in store.copies if now is not None and c.members == now.members]
        if copies:
            record = copies[self._below(len(copies))]
            # Where too much was promised since, only the newest one helps.
            self._true_record = self._true_record or now
            self._cluster.trace.tell("an old record is put back, of epoch", record.controller_epoch)
            store.replace(record)

    def _fool_the_arbiters_clients(self) -> None:
        """The next swaps of each client meet some fault."""
        kinds = list(Fault)
        for arbiter in self._cluster.arbiters:
            arbiter.faults.append(kinds[self._below(len(kinds))])

    def _jump(self) -> None:
        if node := self._some(self._cluster.nodes):
            node.clock.jump_wall(self._below(2 * JUMP_MS_MAX) - JUMP_MS_MAX)
