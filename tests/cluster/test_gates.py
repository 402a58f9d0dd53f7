# SPDX-License-Identifier: MIT
"""The gates of docs/recipes in programs of Debian: Redis (gate_redis.lua) and nginx
(gate_nginx.conf). They need not be installed."""

import http.client
import http.server
import os
import subprocess
import threading

import pytest
import redis

from cluster import ROOT, Cluster, free_ports, wait_until
from debian_files import unpack

RECIPES = os.path.join(ROOT, "docs", "recipes")
SCRIPT = os.path.join(RECIPES, "gate_redis.lua")
NGINX = """
daemon off;
worker_processes 1;
pid %(folder)s/pid;
error_log %(folder)s/error.log;
events { }
http {
    access_log off;
    client_body_temp_path %(folder)s/b; proxy_temp_path %(folder)s/p;
    fastcgi_temp_path %(folder)s/f; uwsgi_temp_path %(folder)s/u;
    scgi_temp_path %(folder)s/s;
    include %(folder)s/gate.conf;
}
"""


@pytest.fixture(name="server")
def server_(tmp_path):
    # Under this name the program in redis-tools is the server.
    program = tmp_path / "redis-server"
    program.symlink_to("/usr/bin/redis-check-rdb")
    (port,) = free_ports(1)
    process = subprocess.Popen(
        [program, "--port", str(port), "--bind", "127.0.0.1", "--dir",
         str(tmp_path), "--save", ""], stdout=subprocess.DEVNULL)
    one = redis.Redis("127.0.0.1", port)

    def answers():
        try:
            return one.ping()
        except redis.ConnectionError:
            return False

    try:
        wait_until(answers, 30, "redis-server")
        yield one
    finally:
        one.close()
        process.kill()
        process.wait()


def test_redis_refuses_an_old_token(server):
    with open(SCRIPT) as file:
        write = server.register_script(file.read())
    keys = ["orders:7", "orders:7:token"]
    # The largest token; its neighbours differ in the last digit.
    high = 2 ** 53 - 1
    for token, value, is_good in ((5, "a", True), (5, "b", True), (4, "c", False),
                                  (high - 1, "d", True), (high, "e", True),
                                  (high - 1, "f", False), ("", "g", False),
                                  ("x", "h", False)):
        if is_good:
            assert write(keys, [token, value]) == b"OK"
            assert server.get("orders:7") == value.encode()
        else:
            before = server.get("orders:7"), server.get("orders:7:token")
            with pytest.raises(redis.ResponseError):
                write(keys, [token, value])
            assert (server.get("orders:7"), server.get("orders:7:token")) == before
    assert server.get("orders:7:token") == b"%d" % high


class Backend(http.server.BaseHTTPRequestHandler):
    """The server to which nginx passes requests: it keeps them."""

    def do_PUT(self):
        self.server.seen.append(self.rfile.read(int(self.headers["Content-Length"])))
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


@pytest.fixture(name="backend")
def backend_():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Backend)
    server.seen = []
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


def put(port, token, value):
    """The status that nginx answers."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    headers = {} if token is None else {"Hasp-Token": str(token)}
    connection.request("PUT", "/orders/7", value, headers)
    status = connection.getresponse().status
    connection.close()
    return status


def test_nginx_refuses_an_old_token(backend, tmp_path):
    nginx = unpack(tmp_path / "debian", "nginx") / "usr" / "sbin" / "nginx"
    (port,) = free_ports(1)
    with Cluster(1) as cluster:
        node = cluster.leader()
        with open(os.path.join(RECIPES, "gate_nginx.conf")) as file:
            gate = file.read()
        for before, after in (("127.0.0.1:8080", "127.0.0.1:%d" % port),
                              ("127.0.0.1:8081", "127.0.0.1:%d" % backend.server_port),
                              ("127.0.0.1:7422", "127.0.0.1:%d" % node.http_port)):
            assert before in gate
            gate = gate.replace(before, after)
        (tmp_path / "gate.conf").write_text(gate)
        (tmp_path / "nginx.conf").write_text(NGINX % {"folder": tmp_path})
        process = subprocess.Popen([nginx, "-p", str(tmp_path), "-c",
                                    str(tmp_path / "nginx.conf")])

        def answers():
            try:
                return put(port, None, "") == 500
            except OSError:
                return False

        try:
            wait_until(answers, 30, "nginx")
            with node.connect() as client:
                client.do("SESSION.OPEN")
                old = client.do("LOCK.ACQUIRE", "orders")
                assert put(port, old, "a") == put(port, old, "b") == 200
                client.do("SESSION.CLOSE")
                client.do("SESSION.OPEN")
                new = client.do("LOCK.ACQUIRE", "orders")
            assert put(port, new, "c") == 200
            assert put(port, old, "late") == 403
            # Nothing that a client sends changes the question.
            for wrong in (None, "", "x", '%d,"gate":false' % old, "0", "9" * 17):
                assert put(port, wrong, "wrong") == 500
            assert put(port, new, "d") == 200
            assert backend.seen == [b"a", b"b", b"c", b"d"]
        finally:
            process.terminate()
            process.wait()
