# SPDX-License-Identifier: MIT
"""A client's bytes are data: they never end a node, or count as the node's
verdict."""

import socket
import threading
import time

from cluster import Cluster, ReplyError, wait_until
from test_http import metrics

WORDS = ["", " ", " x", "BUSY x", "NOPERM x", "BADARG x", "WRONGPASS x",
         "UNKNOWN x", "NOLEADER", "MOVED 1 127.0.0.1:1", "x" * 300,
         "ERR hasp does not run this script"]
CHANGING = ("redis.call('set', KEYS[1], 'v', 'PX', 60000) "
            "return {err=ARGV[1]}")


def is_alive(cluster):
    return all(node.is_running for node in cluster.nodes)


def errors(node):
    return {name: value for name, value in metrics(node).items()
            if name.startswith(("hasp_errors_total", "hasp_unknown_scripts"))}


def test_what_a_script_returns_ends_no_node_and_counts_nowhere():
    with Cluster(3) as cluster:
        leader = cluster.leader()
        cluster.converged()  # All know the term.
        terms = {node.status()["term"] for node in cluster.nodes}
        for node in cluster.nodes:
            before = errors(node)
            with node.connect() as client:
                for number, word in enumerate(WORDS):
                    key = f"k{node.id}-{number}"
                    for script in ("return {err=ARGV[1]}", CHANGING):
                        said = client.once("EVAL", script, 1, key, word)
                        assert isinstance(said, ReplyError)
                    assert client.once("GET", key) == b"v"
            with node.door() as client:
                assert client.once("AUDIT.DENIED") == []
            assert errors(node) == before
        assert is_alive(cluster)
        assert cluster.leader() is leader
        assert {node.status()["term"] for node in cluster.nodes} == terms


def set_at_once(node, key, count):
    """Many clients set one free key in one moment; the answers to each."""
    line = [f"*5\r\n$3\r\nSET\r\n${len(key)}\r\n{key}\r\n$2\r\nv{i}\r\n"
            "$2\r\nPX\r\n$4\r\n5000\r\n".encode() for i in range(count)]
    clients = [socket.create_connection(("127.0.0.1", node.client_port), 10)
               for _ in range(count)]
    threads = [threading.Thread(target=one.sendall, args=(data,))
               for one, data in zip(clients, line)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    answers = [one.recv(4096) for one in clients]
    for one in clients:
        one.close()
    return answers


def test_plain_sets_of_one_free_key_at_once_end_no_leader():
    with Cluster(3) as cluster:
        leader = cluster.leader()
        follower = next(n for n in cluster.nodes if n is not leader)
        for number in range(20):
            for node in (leader, follower):
                answers = set_at_once(node, f"k{node.id}-{number}", 8)
                assert answers.count(b"+OK\r\n") == 1
                assert all(a == b"+OK\r\n" or a.startswith(b"-BADARG set: ")
                           for a in answers)
        assert is_alive(cluster)
        assert cluster.leader() is leader


def test_a_repeatable_that_the_next_leader_refuses_ends_no_node():
    with Cluster(3) as cluster:
        leader = cluster.leader()
        follower = next(n for n in cluster.nodes if n is not leader)
        with leader.connect() as client:
            assert client.once("SET", "held", "v", "NX", "PX", 60000) == "OK"
        with socket.create_connection(("127.0.0.1", follower.client_port), 20) as one:
            leader.pause()
            one.sendall(b"SET k v\r\nPERSIST held\r\n")
            time.sleep(0.1)  # Both lie at the leader, unread.
            leader.kill()
            said = b""
            while said.count(b"\r\n") < 2:
                said += one.recv(4096)
        assert all(line.startswith(b"-UNKNOWN ")
                   for line in said.split(b"\r\n")[:2])
        rest = [node for node in cluster.nodes if node is not leader]
        wait_until(lambda: any(node.is_serving() for node in rest), 10,
                   "a leader")
        assert all(node.is_running for node in rest)
