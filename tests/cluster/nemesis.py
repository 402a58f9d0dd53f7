# SPDX-License-Identifier: MIT
"""Nodes, clients and their faults: one run of the nemesis test.

One thread starts the faults and undoes them, after their time or at the end. A
fault of several steps (a rolling restart, a change of members) is a generator
that is asked for its next step again and again; it reserves the nodes that it
stops, so that no other fault starts them. A restore is alone: all faults are
over before.
"""

import contextlib
import os
import random
import signal
import subprocess
import time
from collections import Counter

from cluster import ReplyError, as_map, wait_until
from nemesis_client import USER
from nemesis_history import FOREVER
from nemesis_net import Network, both, one_way
from nemesis_nodes import CounterServer, FarClient, FarCluster, FarNode

HASP = os.environ.get("HASP", "build/release/hasp")
STORAGE_ERROR = 70
REMOVED = 78
STEP_S = 8.0
OBSERVERS = 2
# Rights of the user, at most times; and while a right is withdrawn.
ROLES = {
    "all": "read,share,lock,fence,kick",
    "some": "read,share,fence,kick",
}


class World:
    """Everything of one run."""

    def __init__(
        self, nodes=3, clients=8, seed=1, plant="", extra="", faults=()
    ):
        self.seed, self.plant, self.ttl_s = seed, plant, 2.0
        self.cluster = self.server = None
        self.clients, self.found, self.log = [], [], []
        self.undo, self.tasks = [], []
        self.lives, self.listings = [], []
        # {kind: how often it was begun}, and how often it had an effect.
        self.begun, self.reached = Counter(), Counter()
        self.storage_errors = 0
        self.network = Network()
        try:
            self.cluster = FarCluster(
                self.network, nodes, extra, faults, plant, seed
            )
            self.counter_path = os.path.join(self.cluster.folder, "counter")
            self.server = CounterServer(self.counter_path)
            self.cluster.leader()
            self.make_user()
            for i in range(clients):
                is_observer = i >= clients - OBSERVERS
                self.clients.append(FarClient(self, i, is_observer))
            for client in self.clients:
                client.start()
        except BaseException:
            self.close()
            raise

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        if kind is not None:
            print("\n".join(self.log))
            self.cluster.print_logs()
        self.close()

    def close(self):
        for client in self.clients:
            if client.process is not None and client.process.poll() is None:
                client.kill()
        if self.server is not None:
            self.server.close()
        if self.cluster is not None:
            self.cluster.close()
        self.network.close()

    # --- faults --------------------------------------------------------------

    def run(self, plan, seconds):
        """Lets the schedule happen; everything is mended at the end."""
        self.start = time.monotonic()
        waiting = list(plan)
        while True:
            now = time.monotonic() - self.start
            self.undo_due(now)
            if waiting and waiting[0][0] <= now:
                _, length, kind, number = waiting.pop(0)
                self.begin(kind, length, number)
            self.take_steps()
            self.watch_deaths()
            if now >= seconds and not waiting:
                break
            time.sleep(0.02)
        self.mend_all()

    def undo_due(self, now):
        due = [u for u in self.undo if u[0] <= now]
        self.undo = [u for u in self.undo if u[0] > now]
        for _, action in due:
            action()

    def mend_all(self):
        """From now on nothing is cut, stopped or killed, and changes are
        over."""
        self.undo_due(float("inf"))
        by = time.monotonic() + 60
        while self.tasks and time.monotonic() < by:
            self.take_steps()
            self.watch_deaths()
            self.undo_due(float("inf"))
            time.sleep(0.02)
        if self.tasks:
            self.found.append("a change of members does not end")

    def take_steps(self):
        """The first task: tasks run one after the other."""
        if self.tasks:
            try:
                next(self.tasks[0])
            except StopIteration:
                self.tasks.pop(0)

    def say(self, text):
        self.log.append("%7.2f %s" % (time.monotonic() - self.start, text))

    def begin(self, kind, length, number):
        rng = random.Random(number)
        nodes = self.cluster.nodes
        victim = rng.choice([n for n in nodes if not n.is_killed] or nodes)
        if "leader" in kind:
            victim = self.cluster.guess_leader() or victim
        others = [n for n in nodes if n is not victim]
        rng.shuffle(others)
        client = rng.choice(self.clients)
        self.say(
            "%s, %.2f s (node %d, client %d)"
            % (kind, length, victim.id, client.index)
        )
        self.begun[kind] += 1
        happen = (
            self.happen_to_process(kind, victim, others)
            or self.happen_to_client(kind, client, rng, length)
            or self.happen_to_network(kind, victim, others, rng, length)
            or self.happen_to_disk(kind, victim)
            or self.happen_to_cluster(kind)
        )
        undo = happen()
        if undo is not None:
            ends = time.monotonic() - self.start + length
            self.undo.append((ends, lambda: self.count(kind, undo())))

    def count(self, kind, has_effect):
        self.reached[kind] += bool(has_effect)

    def report(self):
        """The faults, how often each happened, and how often it had an
        effect."""
        nodes = self.cluster.nodes
        for kind in sorted(self.begun):
            counts = (kind, self.begun[kind], self.reached[kind])
            yield "%-32s %3d begun %3d with an effect" % counts
        for (whose, rate), count in sorted(self.cluster.rates.items()):
            yield "clocks of %s at %.1f: %d" % (whose, rate, count)
        yield "ended by a storage error: %d" % self.storage_errors
        forgotten = sum(node.forgotten for node in nodes)
        yield "writes forgotten without power: %d" % forgotten

    def happen_to_process(self, kind, victim, others):
        nodes = [victim] + others
        return {
            "kill the leader": lambda: self.kill([victim]),
            "kill any": lambda: self.kill([victim]),
            "kill a majority": lambda: self.kill(nodes[: len(nodes) // 2 + 1]),
            "kill all": lambda: self.kill(nodes),
            "stop the leader": lambda: self.freeze([victim]),
            "stop any": lambda: self.freeze([victim]),
            "the leader loses power": lambda: self.cut_power([victim]),
            "all lose power": lambda: self.cut_power(nodes),
        }.get(kind)

    def happen_to_client(self, kind, client, rng, length):
        nodes = self.cluster.nodes
        another = rng.choice([c for c in self.clients if c is not client])
        # To be listed ends a durable session, which its client does not expect.
        listed = another if client.kind == "durable" else client
        return {
            "stop a client": lambda: self.freeze([client]),
            "stop two clients": lambda: self.freeze([client, another]),
            "cut a client": lambda: self.cut(both([client], nodes)),
            "mute nodes to a client": lambda: self.cut(
                one_way(nodes, [client])
            ),
            "kill a client": lambda: self.kill([client]),
            "blacklist a client": lambda: self.blacklist(listed, length),
            "take a right away": self.withdraw,
        }.get(kind)

    def happen_to_network(self, kind, victim, others, rng, length):
        nodes, clients = self.cluster.nodes, self.clients
        here, all_others = [victim], others + clients
        # In a ring each sees its neighbours alone. Over a bridge both halves
        # see one node, and each other not.
        circle = [victim] + others
        size = len(circle)
        ring = [
            (circle[i], circle[j])
            for i in range(size)
            for j in range(i + 2, size)
            if (j + 1) % size != i
        ]
        half = others[: len(others) // 2]
        other_half = [n for n in others if n not in half]
        some = [c for c in clients if rng.random() < 0.5]
        rest = [c for c in clients if c not in some]
        halves = both(half + here + some, other_half + rest)
        pairs = {
            "cut the leader from its peers": both(here, others),
            "cut the leader from all": both(here, all_others),
            "cut the leader from its clients": both(here, clients),
            "cut any from all": both(here, all_others),
            "leader deaf to its peers": one_way(others, here),
            "leader mute to its peers": one_way(here, others),
            "leader mute to its clients": one_way(here, clients),
            "cut one pair": both(here, others[:1]),
            "halves": halves,
            "bridge": both(half, other_half),
            "ring": sum((both([a], [b]) for a, b in ring), []),
        }.get(kind)
        if pairs is not None:
            return lambda: self.cut(pairs)
        each = [p for p in both(nodes, nodes) if p[0] != p[1]]
        each = sorted(set(each))
        return {
            "flapping": lambda: self.flap(both(here, others), rng, length),
            "loss": lambda: self.lose(nodes),
            "weather between nodes": lambda: self.worsen(each),
            "weather everywhere": lambda: self.worsen(
                each + both(nodes, clients)
            ),
        }.get(kind)

    def happen_to_disk(self, kind, victim):
        told = {
            "slow disks": (self.cluster.nodes, "flush 60"),
            "the leader's disk hangs": ([victim], "flush -1"),
            "a disk hangs": ([victim], "flush -1"),
            "a disk fails": ([victim], "flush -5"),
            "the leader's disk is full": ([victim], "fstatvfs -28"),
        }.get(kind)
        return None if told is None else lambda: self.tell_disks(*told)

    def happen_to_cluster(self, kind):
        if kind == "restore":
            return self.restore
        steps = {
            "rolling restart": self.roll,
            "add, promote, demote, remove": self.come_and_go,
            "replace the leader": self.replace,
        }[kind]
        return lambda: self.tasks.append(self.counted(kind, steps()))

    def counted(self, kind, steps):
        self.count(kind, (yield from steps))

    def kill(self, victims):
        return self.end_by(victims, lambda victim: victim.kill())

    def cut_power(self, victims):
        running = [v for v in victims if v.is_running]
        return self.end_by(running, lambda victim: victim.cut_power())

    def end_by(self, victims, end):
        killed = []
        for victim in victims:
            if not victim.is_killed:
                end(victim)
                killed.append((victim, claim(victim)))
        return lambda: self.start_again(killed)

    def start_again(self, killed):
        """Unless somebody else takes care of it by now. Gives whether there
        was one to kill."""
        for victim, number in killed:
            if victim.is_killed and victim.claims == number:
                victim.stops = 0
                victim.start()
        return bool(killed)

    def freeze(self, victims):
        stopped = [(v, v.process) for v in victims]
        for victim in victims:
            victim.freeze()

        def undo():
            was_frozen = False
            for victim, process in stopped:
                if victim.process is process and not victim.is_killed:
                    was_frozen |= victim.is_frozen
                    victim.thaw()
            return was_frozen

        return undo

    def blacklist(self, client, length):
        """With a leader whose clock may be a tenth too fast, and with a length
        whose end need not be requested."""
        name, asked = client.name, time.monotonic()
        for_ms = int(length * 1000)
        words = ["BLACKLIST.ADD", "CLIENT", name, "FOR", for_ms]
        is_listed = self.ask_leader(*words) == "OK"
        listed = {"k": "listed", "name": name, "asked": asked}
        listed["t"] = time.monotonic() if is_listed else FOREVER
        listed["until"] = asked + length / 1.1
        self.listings.append(listed)

        def undo():
            listed["until"] = min(listed["until"], time.monotonic())
            self.ask_leader("BLACKLIST.REMOVE", "CLIENT", name)
            return is_listed

        return undo

    def make_user(self):
        with self.cluster.leader().door() as door:
            for role, verbs in ROLES.items():
                door.do("ROLE.SET", role, "IF", 0, "GRANTS", verbs + ":*")
            door.do("USER.SET", USER, "IF", 0, "ROLES", "all")

    def set_role(self, role):
        """Gives whether it was answered OK; it may have been done if not."""
        leader = self.cluster.guess_leader()
        try:
            with leader.door(1.0) as door:
                changed = door.map("USER.SHOW", USER)["changed"]
                door.do("USER.SET", USER, "IF", changed, "ROLES", role)
            return True
        except (AttributeError, OSError, ReplyError) as error:
            self.say("%s for %s: %r" % (role, USER, error))
            return False

    def withdraw(self):
        """Takes the right to lock from the client that is a user."""
        names = [c.name for c in self.clients if c.kind == "user"]
        lost = {"k": "withdrawn", "name": names[0], "t": FOREVER}
        lost |= {"asked": time.monotonic(), "until": FOREVER, "over": FOREVER}
        self.listings.append(lost)
        has_effect = self.set_role("some")
        lost["t"] = time.monotonic() if has_effect else FOREVER

        def give_back():
            lost["until"] = min(lost["until"], time.monotonic())
            while not self.set_role("all"):
                yield from self.until(lambda: False, 0.25)
            lost["over"] = time.monotonic()

        def undo():
            self.tasks.append(give_back())
            return has_effect

        return undo

    def cut(self, pairs):
        undo = self.telling(pairs, lambda: self.network.mend(pairs))
        self.network.cut(pairs)
        return undo

    def telling(self, pairs, undo):
        """The same, which gives whether packets have met what it undoes."""
        before = self.network.met(pairs)

        def tell():
            undo()
            return self.network.met(pairs) > before

        return tell

    def flap(self, pairs, rng, length):
        """Cut and mended, cut and mended."""
        at, left = time.monotonic() - self.start, length
        undo = self.telling(pairs, lambda: is_cut and self.network.mend(pairs))
        self.network.cut(pairs)
        is_cut = True
        while left > 0.1:
            step = rng.uniform(0.05, 0.5)
            at, left, is_cut = at + step, left - step, not is_cut
            change = self.network.cut if is_cut else self.network.mend
            self.undo.append((at, lambda change=change: change(pairs)))
        return undo

    def worsen(self, pairs):
        undo = self.telling(pairs, lambda: self.network.clear(pairs))
        self.network.worsen(pairs)
        return undo

    def lose(self, nodes):
        for node in nodes:
            self.network.lose(node.host, True)

        def undo():
            has_effect = any(self.network.loses(node.host) for node in nodes)
            for node in nodes:
                self.network.lose(node.host, False)
            return has_effect

        return undo

    def tell_disks(self, victims, line):
        before = sum(victim.disk.obeyed() for victim in victims)
        for victim in victims:
            victim.disk.tell(line)

        def undo():
            for victim in victims:
                victim.disk.tell()
            return sum(victim.disk.obeyed() for victim in victims) > before

        return undo

    def watch_deaths(self):
        for node in self.cluster.nodes:
            if not node.is_killed and not node.is_running:
                self.bury(node)
        for client in self.clients:
            if not client.is_killed and client.process.poll() is not None:
                self.found.append(
                    "client %d ended by itself: %s"
                    % (client.index, client.errors())
                )
                client.is_killed = True

    def bury(self, node):
        """A node whose disk fails or hangs ends, and is started again, as by
        systemd."""
        code = node.process.returncode
        node.is_killed = True
        if code == STORAGE_ERROR and "disk" in self.cluster.faults:
            self.say("node %d ended with a storage error" % node.id)
            self.storage_errors += 1
            ends = time.monotonic() - self.start + 1.0
            killed = [(node, claim(node))]
            self.undo.append((ends, lambda: self.start_again(killed)))
        elif code == REMOVED and node.is_leaving:
            self.say("node %d ended since it was removed" % node.id)
        else:
            self.note_death(node, code)

    def note_death(self, node, code):
        self.found.append(
            "node %d ended by itself with %d: %s"
            % (node.id, code, last_words(node))
        )

    # --- what takes several steps --------------------------------------------

    def until(self, condition, timeout=STEP_S):
        """Steps until the condition is true or the time is over."""
        by = time.monotonic() + timeout
        while not condition() and time.monotonic() < by:
            yield

    def stop_node(self, node):
        """Cleanly, if that works while it is frozen, cut off or hangs."""
        node.is_killed = True
        number = claim(node)
        node.signal(signal.SIGTERM)
        yield from self.until(lambda: not node.is_running, 4.0)
        node.kill()
        return [(node, number)]

    def roll(self):
        is_each_back = True
        for node in list(self.cluster.nodes):
            if node.is_killed:
                continue
            self.start_again((yield from self.stop_node(node)))
            knows_leader = lambda: (node.status() or {}).get("leader")
            yield from self.until(knows_leader)
            is_each_back &= bool(knows_leader())
        return is_each_back

    def ask_leader(self, *words):
        """The answer, or None: what has failed is asked again, or left out."""
        leader = self.cluster.guess_leader()
        if leader is None:
            return None
        try:
            with leader.connect(2.0) as client:
                return client.do(*words)
        except (OSError, ReplyError) as error:
            self.say("%s: %r" % (" ".join(map(str, words)), error))
            return None

    def insist(self, *words, timeout=STEP_S):
        """Asks until it is OK; gives whether it was."""
        by = time.monotonic() + timeout
        at = 0.0
        while time.monotonic() < by:
            if time.monotonic() >= at:
                if self.ask_leader(*words) == "OK":
                    self.say(" ".join(map(str, words)))
                    return True
                at = time.monotonic() + 0.25
            yield
        return False

    def spare(self):
        """A node in addition to the founders; it is started with an empty
        directory."""
        if len(self.cluster.nodes) == len(self.cluster.founders):
            node = FarNode(self.cluster, len(self.cluster.nodes) + 1)
            node.write_config(self.cluster.extra)
            node.is_killed = True
            self.cluster.nodes.append(node)
        return self.cluster.nodes[-1]

    def come_and_go(self):
        """A node comes as a standby, votes, does not, and goes."""
        node = self.spare()
        if not node.is_killed:
            return False
        node.wipe()
        self.start_again([(node, claim(node))])
        is_in = yield from self.insist(
            "RAFT.ADD", node.id, node.addresses, "STANDBY"
        )
        if is_in:
            is_in = yield from self.insist("RAFT.PROMOTE", node.id)
            yield from self.until(lambda: False, 1.0)
            yield from self.insist("RAFT.DEMOTE", node.id)
        yield from self.remove(node)
        return is_in

    def remove(self, node):
        """Repeats until it is done: a member that does not run must not remain.
        The node learns of it before the requester does, and then ends by
        itself."""
        node.is_leaving = True
        is_out = False
        while not is_out:
            if self.cluster.guess_leader() is node:
                self.ask_leader("RAFT.TRANSFER")
                yield from self.until(lambda: False, 0.3)
            is_out = yield from self.insist(
                "RAFT.REMOVE", node.id, timeout=1.0
            )
        self.end_node(node)

    def end_node(self, node):
        """For good: nobody starts it again but who calls this."""
        node.is_killed = True
        claim(node)
        if node.is_running:
            node.kill()
        node.is_leaving = False
        node.wipe()

    def replace(self):
        """The leader is removed, loses its directory, and comes back."""
        node = self.cluster.guess_leader()
        if node is None or node not in self.cluster.founders:
            return False
        others = [n for n in self.cluster.founders if n is not node]
        if any(n.is_killed for n in others):
            return False
        yield from self.remove(node)
        self.start_again([(node, claim(node))])
        while not (
            yield from self.insist("RAFT.ADD", node.id, node.addresses)
        ):
            pass
        return True

    # --- a new life ----------------------------------------------------------

    def tool(self, *words, at=None):
        node = at or self.cluster.nodes[0]
        environment = dict(os.environ, HASP_ENDPOINTS=node.address + ":7420")
        return subprocess.run(
            self.network.wrapper(node.host) + [HASP] + list(map(str, words)),
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=30,
        )

    def restore(self):
        """From a backup that is a moment old: a new life of the cluster.
        Durable sessions, which it would bring back as they were, have ended
        before."""
        self.mend_all()
        leader = self.cluster.leader(20)
        durable = [c for c in self.clients if c.kind == "durable"]
        self.say_goodbye(durable)
        path = os.path.join(self.cluster.folder, "backup")
        backup = time.monotonic()
        words = ["--socket", leader.dir, "snapshot", "save", path, "--force"]
        saved = self.tool(*words, at=leader)
        if saved.returncode != 0:
            self.found.append("no backup: %s" % saved.stderr)
            return
        time.sleep(0.7)
        founders = self.cluster.founders
        for node in self.cluster.nodes:
            if not node.is_killed:
                node.kill()
            node.wipe()
        dead = time.monotonic()
        # No session has a longer TTL: see docs/operations.md.
        quarantine = "%dms" % (self.ttl_s * 1000)
        words = ["snapshot", "restore", path, "--config", founders[0].config]
        words += ["--quarantine", quarantine, "--users", "keep"]
        done = self.tool(*words)
        if done.returncode != 0:
            self.found.append("no restore: %s" % done.stderr)
            return
        self.start_again([(founders[0], claim(founders[0]))])
        wait_until(founders[0].is_serving, 15, "the new life has begun")
        self.start_again([(node, claim(node)) for node in founders[1:]])
        for node in founders[1:]:
            for _ in self.insist("RAFT.ADD", node.id, node.addresses):
                time.sleep(0.05)
        by = time.monotonic() + 30
        while self.quarantine_left() and time.monotonic() < by:
            time.sleep(0.1)
        self.lives.append(
            {"k": "life", "t": dead, "backup": backup}
            | {"until": time.monotonic()}
        )
        self.start_again([(client, claim(client)) for client in durable])
        self.say("a new life has begun")
        self.count("restore", True)

    def quarantine_left(self):
        leader = self.cluster.guess_leader()
        status = leader.status() if leader is not None else None
        return status is None or status["quarantine_ms"] > 0

    # --- after the faults ----------------------------------------------------

    def stop_clients(self):
        """Half of them say good-bye, half are killed in what they do."""
        for client in self.clients:
            client.send(signal.SIGCONT)
            if client.index % 2:
                client.kill()
        self.say_goodbye(c for c in self.clients if not c.is_killed)

    def say_goodbye(self, clients):
        leaving = list(clients)
        for client in leaving:
            client.is_killed = True
            client.send(signal.SIGTERM)
        for client in leaving:
            try:
                client.process.wait(15)
            except subprocess.TimeoutExpired:
                self.found.append("client %d does not end" % client.index)
                client.kill()

    def records(self):
        """One that was killed as soon as it was started has written none."""
        written = [r for c in self.clients for r in c.records]
        return list(filter(os.path.exists, written))


def last_words(node):
    """From its log: the check that has failed, if any, and the end."""
    lines = node.log().splitlines() or [""]
    bugs = [line for line in lines if "check failed" in line]
    return "\n".join(bugs[-1:] or lines[-1:]) + "\n" + "\n".join(lines[-12:])


def claim(victim):
    """The last fault that reserves it is the one that starts it again."""
    victim.claims += 1
    return victim.claims


def wait_progress(world, timeout):
    """Each client acquires again after the faults; observers are answered."""

    def written(client):
        # One that was started just now has not written anything yet.
        with contextlib.suppress(FileNotFoundError):
            with open(client.records[-1], "rb") as file:
                return file.read()
        return b""

    def works(client, size):
        wanted = b'"k": "done"' if client.is_observer else b'"k": "hold"'
        return wanted in written(client)[size:]

    before = [len(written(client)) for client in world.clients]

    wait_until(
        lambda: all(works(c, b) for c, b in zip(world.clients, before)),
        timeout,
        "every client works on",
    )
