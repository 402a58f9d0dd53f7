# SPDX-License-Identifier: MIT
"""Certificates that are refused though they have not expired: of users, of nodes
whose key was stolen, of members that are removed."""

import os
import shutil
import signal
import time

import pytest

from cluster import Client, ReplyError, Session, wait_until
from fake_peer import HELLO, RAFT, identity
from test_peers import FAR, vote
from tls_cluster import SecurePeer, TlsCluster, as_user, tool

REVOKED = "certificate was revoked"


@pytest.fixture(scope="module")
def cluster():
    with TlsCluster() as cluster:
        cluster.leader()
        cluster.hasp("role", "set", "app", "lock,read:app/*")
        cluster.hasp("user", "add", "app", "--role", "app")
        yield cluster


def fingerprint(folder, name):
    shown = tool("-o", "json", "cert", "show", os.path.join(folder, name)).stdout
    return shown.split('"fingerprint": "')[1][:64]


def comes_as_app(cluster, node):
    return Client(node.client_port, tls=as_user(cluster.certs, "app"))


def test_a_users_certificate_is_refused_and_his_locks_stay(cluster):
    tool("cert", "user", "app", folder=cluster.folder)
    folder = os.path.join(cluster.certs, "user-app")
    old = cluster.folder + "/old-app"
    shutil.copytree(folder, old)
    follower = cluster.followers(cluster.leader())[0]
    with comes_as_app(cluster, follower) as client:
        session = Session(client, TTL=60000, LINGER=50)
        assert client.do("LOCK.ACQUIRE", "app/1") > 0
        done = cluster.hasp("cert", "revoke", old)
        assert done.stderr == "hasp: %s: is revoked (user app)\n" % fingerprint(
            old, "client.crt")
        assert client.file.read() == b""  # It was closed ...
    time.sleep(0.3)
    with cluster.leader().connect() as admin:  # ... quietly.
        assert len(admin.map("LOCK.SHOW", "app/1")["holders"]) == 1
    for node in cluster.nodes:
        with comes_as_app(cluster, node) as client:
            with pytest.raises(ReplyError, match="^NOAUTH " + REVOKED + "$"):
                client.do("PING")
            assert client.file.read() == b""
    done = cluster.hasp("show", "app/1", tls="app", check=False)
    assert done.returncode == 77 and REVOKED in done.stderr
    assert "is revoked" in cluster.hasp("cert", "revoke", old).stderr
    # The user itself comes by another, and has its session.
    tool("cert", "renew", folder, folder=cluster.folder)
    with comes_as_app(cluster, follower) as client:
        session.attach(client)
        assert client.do("LOCK.RELEASE", "app/1") == 0


def test_what_is_revoked_stays_so(cluster):
    """Over a restart with a snapshot; the list has it."""
    tool("cert", "user", "gone", folder=cluster.folder)
    folder = os.path.join(cluster.certs, "user-gone")
    gone = fingerprint(folder, "client.crt")
    cluster.hasp("cert", "revoke", gone)
    assert gone in cluster.hasp("cert", "revoked").stdout
    assert gone in cluster.hasp("cert", "revoked", gone[:8]).stdout
    done = cluster.hasp("cert", "revoke", cluster.certs, check=False)
    assert done.returncode == 66 and "cannot read" in done.stderr
    done = cluster.hasp("cert", "revoke", cluster.certs + "/ca.crt", check=False)
    assert done.returncode == 65 and "is a CA" in done.stderr
    node = cluster.followers(cluster.leader())[0]
    with node.connect() as client:
        client.do("RAFT.SNAPSHOT")
    node.stop()
    node.start()
    wait_until(lambda: (node.status() or {}).get("leader"), 15,
               "it has a leader again")
    with Client(node.client_port, tls=as_user(cluster.certs, "gone")) as client:
        with pytest.raises(ReplyError, match=REVOKED):
            client.do("HELLO", "3")


def test_a_nodes_stolen_key_is_of_no_use_and_the_node_goes_on(cluster):
    """The node has a new certificate before the old one is revoked."""
    first, second, third = cluster.nodes
    folder = cluster.folder_of(second)
    stolen = cluster.folder + "/stolen"
    shutil.copytree(folder, stolen)
    tool("cert", "renew", folder, folder=cluster.folder)
    taken = second.log().count('event="certificates loaded"')
    second.signal(signal.SIGHUP)
    wait_until(lambda: second.log().count('event="certificates loaded"') > taken,
               10, "the new certificate")
    ups = {n: n.log().count('event="peer up" peer=2') for n in (first, third)}
    downs = {n: n.log().count(REVOKED) for n in (first, third)}
    with cluster.leader().connect() as client:
        session = Session(client, TTL=10000)
        assert client.do("LOCK.ACQUIRE", "job") > 0
    cluster.hasp("cert", "revoke", stolen)
    for node in (first, third):  # The links go, and come back by the new one.
        wait_until(lambda: node.log().count(REVOKED) > downs[node], 10,
                   "the link that used the old one is closed")
        wait_until(lambda: node.log().count('event="peer up" peer=2')
                   > ups[node], 15, "node 2 is there again")
    assert cluster.leader()
    own, incarnation = identity(second)

    def is_told():
        with SecurePeer(first, 2, stolen, cluster.certs, cluster=own,
                        incarnation=incarnation) as fake:
            frame = fake.receive()
            assert frame is None or frame[0] != HELLO
            assert fake.is_closed()
        return frame is not None and REVOKED.encode() in frame[1]

    wait_until(is_told, 15, "the thief is logged")
    with cluster.leader().connect() as client:
        session.attach(client)
        assert client.do("LOCK.RELEASE", "job") == 0


def test_a_member_is_removed_with_its_certificate():
    with TlsCluster() as cluster:
        leader = cluster.leader()
        gone = cluster.followers(leader)[0]
        folder = cluster.folder_of(gone)
        done = cluster.hasp("member", "remove", str(gone.id), "--revoke", folder)
        assert "is revoked (node %d)" % gone.id in done.stderr
        assert fingerprint(folder, "node.crt") in cluster.hasp(
            "cert", "revoked").stdout
        assert gone.wait_exit(20) == 78
        assert "was removed by" in gone.log()
        # Its content is of no use to a thief that starts a new node.
        own, _ = identity(gone)
        with SecurePeer(leader, gone.id, folder, cluster.certs,
                        cluster=own, incarnation=5, members=1 << 40) as fake:
            frame = fake.receive()
            assert frame is not None and frame[0] != HELLO
            assert REVOKED.encode() in frame[1]
        assert leader.status()["role"] == "leader"
        done = cluster.hasp("member", "remove", "9", "--revoke", "/nowhere",
                            check=False)
        assert done.returncode == 66


def test_a_good_certificate_does_not_make_a_removed_node_a_member():
    """Whatever it says of its log: it knows all but a newer certificate."""
    with TlsCluster() as cluster:
        leader = cluster.leader()
        gone = cluster.followers(leader)[0]
        cluster.hasp("member", "remove", str(gone.id))
        assert gone.wait_exit(20) == 78
        term = leader.status()["term"]
        own, incarnation = identity(gone)
        for number in (incarnation, 5):
            with SecurePeer(leader, gone.id, cluster.folder_of(gone),
                            cluster.certs, cluster=own, incarnation=number,
                            applied=FAR, members=FAR, term=term, last=FAR) as fake:
                fake.send(RAFT, vote(gone.id, 2**62))
                assert fake.is_closed()
        assert "member %d was removed by" % gone.id in leader.log()
        assert leader.status()["term"] == term
