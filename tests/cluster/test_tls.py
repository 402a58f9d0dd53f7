# SPDX-License-Identifier: MIT
"""TLS on the ports of real nodes: which peers are admitted, the reasons of
refusals, new certificates, the way from plain to TLS."""

import os
import re
import shutil
import signal
import socket
import ssl
import subprocess
import time
import urllib.request

import pytest

from cluster import Client, ReplyError, wait_until
from tls_cluster import TlsCluster, as_user, tool

NOTLS = "this port requires TLS: use --tls or HASP_TLS"


@pytest.fixture(scope="module")
def cluster():
    with TlsCluster() as cluster:
        cluster.leader()
        yield cluster


def metric(node, name):
    url = "http://127.0.0.1:%d/metrics" % node.http_port
    with urllib.request.urlopen(url, timeout=5) as answer:
        text = answer.read().decode()
    return float(re.search("^" + re.escape(name) + r" (\S+)$", text,
                           re.M).group(1))


def is_refused(node, port, context, reason):
    """Such a connection is closed, and the log has the reason: five lines in
    ten seconds, so it is tried until there is room for it."""
    def attempt():
        with pytest.raises((ssl.SSLError, ConnectionError)):
            with Client(port, tls=context) as client:
                client.do("PING")
        time.sleep(0.2)
        return reason in node.log()

    wait_until(attempt, 20, "in the log: " + reason)


# --- Who is let in -------------------------------------------------------------


def test_nodes_and_clients_speak_tls_alone(cluster):
    assert "3 of 3 up" in cluster.hasp("status").stderr
    done = cluster.hasp("run", "job", "--", "sh", "-c", "echo $HASP_TLS")
    assert done.stdout == cluster.app + "\n"
    for node in cluster.nodes:
        ups = re.findall(r'event="peer up" .*tls=(\w+)', node.log())
        assert len(ups) >= 2 and set(ups) == {"yes"}
        assert metric(node, 'hasp_tls_days_left{what="ca"}') > 3600
        assert metric(node, 'hasp_tls_days_left{what="node"}') > 3600


def test_clients_of_other_makes(cluster):
    port = cluster.nodes[0].client_port
    certs = cluster.certs
    redis = ["redis-cli", "-h", "127.0.0.1", "-p", str(port)]
    flags = ["--tls", "--cacert", certs + "/ca.crt"]
    own = ["--cert", cluster.app + "/client.crt",
           "--key", cluster.app + "/client.key"]
    for extra in (flags, flags + own):
        done = subprocess.run(redis + extra + ["set", "other", "x", "nx", "px",
                                               "100"],
                              capture_output=True, text=True, timeout=20)
        assert done.stdout in ("OK\n", "\n"), done.stderr
    plain = subprocess.run(redis + ["ping"], capture_output=True, text=True,
                           timeout=20)
    assert plain.stdout.strip() == "NOTLS " + NOTLS
    with Client(port, tls=as_user(certs)) as client:
        assert client.do("PING") == "PONG"


def test_plain_is_told_what_is_wanted(cluster):
    node = cluster.nodes[1]
    name = 'hasp_tls_failures_total{port="client"}'
    before = metric(node, name)
    with Client(node.client_port) as client:
        with pytest.raises(ReplyError) as error:
            client.do("PING")
        assert str(error.value) == "NOTLS " + NOTLS
        assert client.file.read() == b""
    wait_until(
        lambda: metric(node, name) > before, 10, "the failure is counted"
    )
    assert metric(node, name) == before + 1
    assert "plain connection; this port requires TLS" in node.log()
    done = cluster.hasp("show", "x", tls=None, check=False)
    assert done.returncode == 78 and NOTLS in done.stderr
    done = cluster.hasp("status", tls=None, check=False)
    assert done.returncode == 69 and NOTLS in done.stderr
    assert "refuses" in done.stdout and "no node answers" not in done.stderr
    with socket.create_connection(("127.0.0.1", node.peer_port), 5) as peer:
        peer.sendall(b"\0" * 16)
        assert peer.recv(100) == b""


def test_a_client_that_trusts_another_ca_says_so(cluster, tmp_path):
    tool("cert", "ca", "--cluster", "test", folder=tmp_path)
    tool("cert", "user", "eve", folder=tmp_path)
    eve = tmp_path / "certs" / "user-eve"
    done = tool("-e", cluster.endpoints, "-t", "1s", "show", "x", tls=eve,
                check=False)
    assert done.returncode == 78
    assert ("the node's certificate was made by another CA than %s/ca.crt" % eve
            in done.stderr)
    # A client that trusts the nodes, but has a foreign certificate, gets the
    # reason.
    shutil.copy(cluster.certs + "/ca.crt", eve / "ca.crt")
    done = tool("-e", cluster.endpoints, "-t", "1s", "show", "x", tls=eve,
                check=False)
    assert done.returncode == 78
    assert "was made by another CA" in done.stderr


def test_a_node_is_no_client(cluster):
    node = cluster.nodes[0]
    folder = cluster.folder_of(cluster.nodes[1])
    context = as_user(cluster.certs)
    context.load_cert_chain(folder + "/node.crt", folder + "/node.key")
    is_refused(node, node.client_port, context,
               "this is a node's certificate, not a user's")


def test_older_versions_are_refused(cluster):
    context = as_user(cluster.certs)
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    with pytest.raises(ssl.SSLError):
        Client(cluster.nodes[2].client_port, tls=context)


def test_users_and_nobodies_are_no_nodes(cluster):
    node = cluster.nodes[0]
    is_refused(node, node.peer_port, as_user(cluster.certs),
               "it presented no certificate")
    is_refused(node, node.peer_port, as_user(cluster.certs, "admin"),
               "this is a user's certificate, not a node's")


# --- Files ---------------------------------------------------------------------


def encrypt(key):
    subprocess.run(["openssl", "pkey", "-in", key, "-aes128", "-passout",
                    "pass:secret", "-out", key + ".new"], check=True,
                   capture_output=True, timeout=60)
    os.rename(key + ".new", key)
    os.chmod(key, 0o600)


def test_a_key_with_a_passphrase_is_no_key_of_a_ca(tmp_path):
    tool("cert", "ca", "--cluster", "test", folder=tmp_path)
    encrypt(str(tmp_path / "certs" / "ca.key"))
    made = tool("cert", "node", "1=127.0.0.1", folder=tmp_path, check=False)
    assert made.returncode == 65
    assert "ca.key' has no key in PEM format without a passphrase" in made.stderr


@pytest.mark.parametrize("fault", ["node", "key", "passphrase", "mode",
                                   "expired", "cluster", "none"])
def test_a_start_with_wrong_files_ends_with_the_reason(tmp_path, fault):
    with TlsCluster(start=False) as cluster:
        node = cluster.nodes[0]
        own, other = (cluster.folder_of(n) for n in cluster.nodes[:2])
        if fault == "node":
            shutil.rmtree(own)
            shutil.copytree(other, own)
            expected = "is of node 2, this is node 1"
        elif fault == "key":
            shutil.copy(other + "/node.key", own + "/node.key")
            expected = "does not match the certificate"
        elif fault == "passphrase":
            encrypt(own + "/node.key")
            # Nobody is asked for it on the terminal.
            expected = "cannot read the key"
        elif fault == "mode":
            os.chmod(own + "/node.key", 0o644)
            expected = "is mode 0644: chmod 0600"
        elif fault == "expired":
            expire(own + "/node", cluster.certs, "node/1")
            expected = "expired on "
        elif fault == "cluster":
            cluster.configure(node, "require", "[cluster]\n")
            with open(node.config) as file:
                text = file.read().replace("name = test", "name = prod")
            with open(node.config, "w") as file:
                file.write(text)
            expected = "is for cluster 'test', not 'prod'"
        else:
            os.unlink(own + "/ca.crt")
            expected = "cannot open the CA"
        assert node.start().wait_exit() == 78
        assert expected in node.log()


def expire(stem, certs, name):
    """A certificate of the CA that has expired, in the place of this one."""
    run = lambda *words: subprocess.run(["openssl", *words], check=True,
                                        capture_output=True, timeout=20)
    run("req", "-new", "-newkey", "ec", "-pkeyopt",
        "ec_paramgen_curve:P-256", "-nodes", "-keyout", stem + ".key",
        "-subj", "/CN=x", "-out", stem + ".csr")
    with open(stem + ".ext", "w") as file:
        file.write("subjectAltName=URI:hasp://test/%s\n" % name)
    os.mkdir(stem + ".ca")
    with open(stem + ".ca/index", "w"), open(stem + ".ca/conf", "w") as conf:
        conf.write(
            "[ca]\ndefault_ca=x\n[x]\ndatabase=%s.ca/index\nrand_serial=yes\n"
            "new_certs_dir=%s.ca\ndefault_md=sha256\npolicy=p\n"
            "[p]\ncommonName=supplied\n" % (stem, stem))
    run("ca", "-batch", "-config", stem + ".ca/conf", "-notext",
        "-cert", certs + "/ca.crt", "-keyfile", certs + "/ca.key",
        "-startdate", "20200101000000Z", "-enddate", "20210101000000Z",
        "-extfile", stem + ".ext", "-in", stem + ".csr", "-out", stem + ".crt")
    os.chmod(stem + ".key", 0o600)


def test_expired_users_are_told(cluster):
    tool("cert", "user", "old", folder=cluster.folder)
    expire(cluster.certs + "/user-old/client", cluster.certs, "user/old")
    done = cluster.hasp("-t", "1s", "show", "x", tls="old", check=False)
    assert done.returncode == 78
    assert "expired on 2021-01-01 00:00 UTC: hasp cert renew" in done.stderr
    # The repair does not need it.
    shown = cluster.hasp("cert", "show", cluster.certs + "/ca.crt", tls="old")
    assert "hasp://test" in shown.stdout
    node = cluster.nodes[0]
    is_refused(node, node.client_port, as_user(cluster.certs, "old"),
               "the client's certificate expired on 2021-01-01")


def taken(node):
    return node.log().count('event="certificates loaded"')


def test_new_certificates_cut_no_connection(cluster):
    node = cluster.nodes[0]
    with node.connect() as client:
        assert client.do("PING") == "PONG"
        serial = tool("cert", "show", "127.0.0.1:%d" % node.client_port).stdout
        tool("cert", "renew", cluster.folder_of(node), folder=cluster.folder)
        ups = node.log().count('event="peer up"')
        count = taken(node)
        node.signal(signal.SIGHUP)
        wait_until(lambda: taken(node) == count + 1, 10, "the new certificate")
        assert client.do("PING") == "PONG"
        assert node.log().count('event="peer up"') == ups
        now = tool("cert", "show", "127.0.0.1:%d" % node.client_port).stdout
        assert now != serial
        # A key that does not fit changes nothing.
        failures = metric(node, "hasp_tls_reload_failures_total")
        shutil.copy(cluster.folder_of(cluster.nodes[1]) + "/node.key",
                    cluster.folder_of(node) + "/node.key")
        node.signal(signal.SIGHUP)
        wait_until(lambda: metric(node, "hasp_tls_reload_failures_total")
                   == failures + 1, 10, "the failure is counted")
        assert "new certificates rejected, the old ones stay" in node.log()
        assert client.do("PING") == "PONG"
        assert tool("cert", "show",
                    "127.0.0.1:%d" % node.client_port).stdout == now
        tool("cert", "renew", cluster.folder_of(node), folder=cluster.folder)
        node.signal(signal.SIGHUP)
        wait_until(lambda: taken(node) == count + 2, 10, "a good set again")
    with node.connect() as client:
        assert client.do("PING") == "PONG"


# --- From plain to TLS ---------------------------------------------------------


def test_the_way_from_plain_to_tls_loses_no_session():
    with TlsCluster("off") as cluster:
        leader = cluster.leader()
        with leader.connect() as client:
            session = client.map("SESSION.OPEN", "TTL", "60000")
            assert client.do("LOCK.ACQUIRE", "job")
        for mode in ("allow", "require"):
            for node in cluster.nodes:
                node.stop()
                cluster.configure(node, mode)
                node.start()
                if mode == "require":
                    # Without a certificate: the session is nobody's.
                    cluster.tls = as_user(cluster.certs)
                    others = [n for n in cluster.nodes if n.id <= node.id]
                else:
                    others = cluster.nodes
                wait_until(lambda: any(n.is_serving() for n in others), 15,
                           "a leader among those that are asked so") \
                    if len(others) == 3 else time.sleep(1)
            if mode == "allow":
                log = cluster.nodes[0].log()
                assert log.count('event="plain is allowed beside TLS"') == 2
        leader = cluster.leader()
        with leader.connect() as client:
            assert client.do("SESSION.ATTACH", session["id"],
                             session["secret"]) is not None
            shown = client.map("LOCK.SHOW", "job")
            assert len(shown["holders"]) == 1
        for node in cluster.nodes:
            last = re.findall(r'event="peer up" .*tls=(\w+)', node.log())[-2:]
            assert last == ["yes", "yes"]


def test_status_warns_of_what_expires_soon():
    with TlsCluster(start=False) as cluster:
        node = cluster.nodes[1]
        shutil.rmtree(cluster.folder_of(node))
        tool("cert", "node", "2=127.0.0.1", "--days", "12",
             folder=cluster.folder)
        cluster.start()
        cluster.leader()
        done = cluster.hasp("status")
        assert re.search("the certificate of node 2 expires in 1[12] days: "
                         "hasp cert renew", done.stderr)
        assert "node 1" not in done.stderr
        wait_until(lambda: 'event="certificate expires soon" what=node '
                   "days_left=1" in node.log(), 5, "the line of the log")
        assert metric(node, 'hasp_tls_days_left{what="node"}') in (11, 12)
