# SPDX-License-Identifier: MIT
"""HTTP over TLS: what it admits and answers, bearers, certificates, long
answers, streams, clients that come and go, new certificates."""

import http.client
import json
import os
import re
import signal
import socket
import ssl
import subprocess
import time
from contextlib import closing

import pytest

from cluster import free_ports, wait_until
from tls_cluster import TlsCluster, as_user, tool

JSON = {"Content-Type": "application/json"}


@pytest.fixture(scope="module", name="cluster")
def cluster_():
    with TlsCluster(start=False) as cluster:
        for node in cluster.nodes:
            extra = "http = require\n"
            extra += "http_certificates = yes\n" if node.id == 2 else ""
            extra += "metrics = open\n" if node.id == 3 else ""
            (node.consul_port,) = free_ports(1)
            extra += "[listen]\nconsul = 127.0.0.1:%d\n" % node.consul_port
            cluster.configure(node, "require", extra)
        cluster.start()
        cluster.leader()
        cluster.hasp("role", "set", "app", "lock,read:*")
        cluster.hasp("user", "add", "app", "--role", "app")
        cluster.secret = cluster.folder + "/app.secret"
        cluster.hasp("secret", "add", "app", "--file", cluster.secret)
        tool("cert", "user", "app", folder=cluster.folder)
        cluster.hasp("access", "required")
        wait_until(lambda: all((node.status() or {}).get("users") == "enforced"
                               for node in cluster.nodes), 10, "all know it")
        yield cluster


def bearer(cluster):
    with open(cluster.secret) as file:
        return {"Authorization": "Bearer " + file.read().strip()}


def ask(cluster, node, method, target, body=None, headers=(), user=None):
    connection = http.client.HTTPSConnection(
        "127.0.0.1", node.http_port, timeout=20,
        context=as_user(cluster.certs, user))
    with closing(connection):
        connection.request(method, target, body, dict(headers))
        reply = connection.getresponse()
        return reply.status, reply.read()


def test_consul_s_port_uses_tls_as_http_does(cluster):
    node = cluster.nodes[0]

    def consul(method, target, body, context):
        connection = http.client.HTTPSConnection(
            "127.0.0.1", node.consul_port, timeout=20, context=context)
        with closing(connection):
            connection.request(method, target, body, {
                "X-Consul-Token": bearer(cluster)["Authorization"].split()[1]})
            reply = connection.getresponse()
            return reply.status, reply.read()

    status, body = consul("PUT", "/v1/session/create", '{"TTL": "10s"}',
                          as_user(cluster.certs, None))
    assert status == 200, body
    session = json.loads(body)["ID"]
    assert consul("PUT", "/v1/kv/app?acquire=" + session, "",
                  as_user(cluster.certs, None)) == (200, b"true")
    assert consul("PUT", "/v1/session/destroy/" + session, "",
                  as_user(cluster.certs, None)) == (200, b"true")
    with pytest.raises(ssl.SSLError):  # The client checks the node's certificate.
        consul("GET", "/v1/status/leader", None, ssl.create_default_context())
    plain = http.client.HTTPConnection("127.0.0.1", node.consul_port, timeout=20)
    with closing(plain):
        plain.request("GET", "/v1/status/leader")
        reply = plain.getresponse()
        assert reply.status == 400 and b"requires HTTPS" in reply.read()


def test_probes_need_nobody_and_metrics_a_user(cluster):
    first, _, third = cluster.nodes
    assert ask(cluster, first, "GET", "/healthz") == (200, b"ok\n")
    wait_until(lambda: ask(cluster, first, "GET", "/readyz")[0] == 200, 10, "ready")
    status, text = ask(cluster, first, "GET", "/metrics")
    assert status == 401 and json.loads(text)["code"] == "NOAUTH"
    status, text = ask(cluster, first, "GET", "/metrics", headers=bearer(cluster))
    assert status == 200 and b"hasp_tls_failures_total{port=\"http\"}" in text
    status, text = ask(cluster, third, "GET", "/metrics")
    assert status == 200 and text.startswith(b"# HELP")


def test_a_bearer_and_a_certificate_are_users(cluster):
    _, second, third = cluster.nodes
    body = json.dumps({"holder": "h-8f2a", "ttl_ms": 20000})
    headers = dict(JSON, **bearer(cluster))
    assert ask(cluster, third, "PUT", "/v1/lease/a", body, JSON)[0] == 401
    assert ask(cluster, third, "PUT", "/v1/lease/a", body, headers)[0] == 200
    # A certificate counts if it is requested.
    assert ask(cluster, third, "GET", "/v1/locks/a", user="app")[0] == 401
    assert ask(cluster, second, "GET", "/v1/locks/a", user="app")[0] == 200
    assert ask(cluster, second, "GET", "/v1/locks/a", headers=bearer(cluster))[0] == 200
    with pytest.raises((ssl.SSLError, ConnectionError)):
        context = as_user(cluster.certs)
        folder = cluster.folder_of(third)
        context.load_cert_chain(folder + "/node.crt", folder + "/node.key")
        connection = http.client.HTTPSConnection("127.0.0.1", second.http_port,
                                                 timeout=10, context=context)
        connection.request("GET", "/healthz")
        connection.getresponse()


def test_plain_is_told_and_closed(cluster):
    node = cluster.nodes[0]
    with socket.create_connection(("127.0.0.1", node.http_port), 10) as plain:
        plain.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
        text = b""
        while part := plain.recv(4096):
            text += part
    assert text.startswith(b"HTTP/1.1 400 ") and b"this port requires HTTPS" in text
    wait_until(lambda: "port=http" in node.log(), 10, "the line in the log")


def test_curl_and_old_tls(cluster):
    url = "https://127.0.0.1:%d/healthz" % cluster.nodes[0].http_port
    curl = ["curl", "-sS", "--cacert", cluster.certs + "/ca.crt", url]
    done = subprocess.run(curl, capture_output=True, text=True, timeout=20)
    assert done.stdout == "ok\n", done.stderr
    context = as_user(cluster.certs)
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    with pytest.raises(ssl.SSLError):
        context.wrap_socket(socket.create_connection(
            ("127.0.0.1", cluster.nodes[0].http_port), 10))


def test_pages_of_plain_origins_change_nothing(cluster):
    node = cluster.nodes[0]
    body = json.dumps({"holder": "h-8f2b", "ttl_ms": 1000})
    host = "127.0.0.1:%d" % node.http_port
    for scheme, expected in (("http", 403), ("https", 200)):
        headers = dict(JSON, Origin="%s://%s" % (scheme, host), **bearer(cluster))
        assert ask(cluster, node, "PUT", "/v1/lease/o", body, headers)[0] == expected


def test_long_answers_arrive_whole_though_read_slowly(cluster):
    """More than all buffers on the way can take; the connection is closed after
    it."""
    node = cluster.leader()
    with node.connect() as client:
        client.do("SESSION.OPEN", "TTL", "60000")
        for i in range(50):
            client.send("LOCK.ACQUIRE", "long/%03d" % i, "VALUE", "v" * 4000)
        for i in range(50):
            client.receive()
        slow = socket.socket()
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 16384)
        slow.settimeout(10)
        slow.connect(("127.0.0.1", node.http_port))
        with as_user(cluster.certs).wrap_socket(slow) as raw:
            for last in [False] * 19 + [True]:
                raw.sendall(
                    ("GET /v1/locks?prefix=long/&count=50 HTTP/1.1\r\n"
                     "Host: localhost\r\n%s%s: %s\r\n\r\n"
                     % ("Connection: close\r\n" if last else "",
                        *next(iter(bearer(cluster).items())))).encode())
            time.sleep(1)
            parts = []
            while part := raw.recv(65536):
                parts.append(part)
    text = b"".join(parts)
    for _ in range(20):
        head, _, text = text.partition(b"\r\n\r\n")
        assert b" 200 " in head.split(b"\r\n")[0]
        length = int(re.search(rb"(?i)content-length: (\d+)", head).group(1))
        assert 200000 < length <= 256 * 1024
        assert len(json.loads(text[:length])["locks"]) == 50
        text = text[length:]
    assert text == b""


def test_who_comes_and_goes_leaves_nothing(cluster):
    """Handshakes given up, requests cut short, clients that do not wait."""
    node = cluster.nodes[0]
    before = len(os.listdir("/proc/%d/fd" % node.process.pid))
    context = as_user(cluster.certs)
    for i in range(60):
        raw = socket.create_connection(("127.0.0.1", node.http_port), 10)
        if i % 3 == 0:
            raw.close()
            continue
        secure = context.wrap_socket(raw)
        if i % 3 == 1:
            secure.sendall(b"GET /healthz HTTP/1.1\r\nHo")
        else:
            secure.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        secure.close()
    wait_until(lambda: len(os.listdir("/proc/%d/fd" % node.process.pid))
               <= before + 3, 15, "all descriptors are given back")
    assert ask(cluster, node, "GET", "/healthz")[0] == 200


def test_new_certificates_serve_who_comes_next(cluster):
    node = cluster.nodes[0]
    folder = cluster.folder_of(node)

    def shown():
        return tool("cert", "show", "127.0.0.1:%d" % node.http_port).stdout

    old = shown()
    kept = http.client.HTTPSConnection("127.0.0.1", node.http_port, timeout=10,
                                       context=as_user(cluster.certs))
    with closing(kept):
        kept.request("GET", "/healthz")
        assert kept.getresponse().read() == b"ok\n"
        tool("cert", "renew", folder, folder=cluster.folder)
        node.signal(signal.SIGHUP)
        wait_until(lambda: shown() != old, 10, "the new certificate")
        kept.request("GET", "/healthz")
        assert kept.getresponse().read() == b"ok\n"


def test_a_revoked_certificate_is_no_user_here_either(cluster):
    second = cluster.nodes[1]
    tool("cert", "user", "gone", folder=cluster.folder)
    cluster.hasp("user", "add", "gone", "--role", "app")
    wait_until(lambda: ask(cluster, second, "GET", "/v1/locks/a",
                           user="gone")[0] == 200, 10, "it is known")
    cluster.hasp("cert", "revoke", os.path.join(cluster.certs, "user-gone"))

    def refused():
        status, text = ask(cluster, second, "GET", "/v1/locks/a", user="gone")
        return status == 401 and b"certificate was revoked" in text

    wait_until(refused, 10, "it is refused")


def test_what_hasp_itself_closes_ends_no_session(cluster):
    """The secret of a stream is withdrawn: the stream is closed, and the
    session continues for its lease, although its linger is 50 ms."""
    node = cluster.nodes[0]
    path = cluster.folder + "/second.secret"
    cluster.hasp("secret", "add", "app", "--file", path, "--label", "second")
    with open(path) as file:
        headers = dict(JSON, Authorization="Bearer " + file.read().strip())
    body = json.dumps({"ttl_ms": 20000, "linger_ms": 50})
    opened = json.loads(ask(cluster, node, "POST", "/v1/session/open", body,
                            headers)[1])
    named = {"Hasp-Session": "%d:%s" % (opened["id"], opened["secret"])}
    body = json.dumps({"name": "quiet"})
    assert ask(cluster, node, "POST", "/v1/lock/acquire", body,
               {**headers, **named})[0] == 200
    stream = http.client.HTTPSConnection("127.0.0.1", node.http_port, timeout=10,
                                         context=as_user(cluster.certs))
    with closing(stream):
        stream.request("GET", "/v1/session/stream", None, {**headers, **named})
        reply = stream.getresponse()
        assert reply.status == 200 and reply.readline() == b": hasp\n"
        shown = cluster.hasp("user", "show", "app").stdout
        number = re.search(r"^secret (\d+) second$", shown, re.M).group(1)
        cluster.hasp("secret", "remove", "app", number)
        while reply.readline():  # Until its end.
            pass
    assert ask(cluster, node, "POST", "/v1/session/keep", "{}",
               {**headers, **named})[0] == 401
    time.sleep(0.5)
    headers = dict(JSON, **bearer(cluster))
    assert ask(cluster, node, "POST", "/v1/session/keep", "{}",
               {**headers, **named})[0] == 200
    shown = json.loads(ask(cluster, node, "GET", "/v1/locks/quiet",
                           headers=headers)[1])
    assert len(shown["holders"]) == 1


def test_a_wrong_setting_is_refused(tmp_path):
    with TlsCluster(start=False) as cluster:
        node = cluster.nodes[0]
        cluster.configure(node, "require", "http = allow\n")
        assert node.start().wait_exit() == 78
        assert "tls.http = allow is not possible" in node.log()
