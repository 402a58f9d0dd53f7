# SPDX-License-Identifier: MIT
"""A cluster with listen.consul, and a client of it made of http.client."""

import base64
import contextlib
import http.client
import json

from cluster import Cluster, free_ports

LOCK_FLAGS = 3304740253564472344
NOBODY = "00000000-0000-0000-0000-000000000000"


def consul_cluster(count=3, extra="", ttl_max=20000, start=True):
    """A Cluster whose nodes have a consul_port. Sessions of up to ttl_max / 2."""
    cluster = Cluster(count, extra, start=False)
    for node, port in zip(cluster.nodes, free_ports(count)):
        node.consul_port = port
        with open(node.config) as file:
            text = file.read().replace("ttl_max = 3600000", "ttl_max = %d" % ttl_max)
        with open(node.config, "w") as file:
            file.write(text + "\n[listen]\nconsul = 127.0.0.1:%d\n" % port)
    return cluster.start() if start else cluster


class Answer:
    def __init__(self, status, headers, body):
        self.status, self.headers, self.body = status, headers, body
        self.index = int(headers.get("X-Consul-Index") or 0)

    def json(self):
        assert self.status == 200, (self.status, self.body)
        return json.loads(self.body)

    def key(self):
        """The one key of a GET, with its value decoded."""
        (key,) = self.json()
        return dict(key, Value=base64.b64decode(key["Value"] or ""))

    def __repr__(self):
        return "%d %r" % (self.status, self.body)


def call(node, method, target, body=None, headers=(), timeout=90):
    connection = http.client.HTTPConnection("127.0.0.1", node.consul_port,
                                            timeout=timeout)
    with contextlib.closing(connection):
        if isinstance(body, dict):
            body = json.dumps(body)
        connection.request(method, target, body, dict(headers))
        reply = connection.getresponse()
        return Answer(reply.status, reply.headers, reply.read())


def open_session(node, headers=(), **members):
    body = dict({"TTL": "10s", "LockDelay": "0s"}, **members)
    return call(node, "PUT", "/v1/session/create", body, headers).json()["ID"]


def acquire(node, key, session, value="", headers=(), more=""):
    return call(node, "PUT", "/v1/kv/%s?acquire=%s%s" % (key, session, more), value,
                headers)


def release(node, key, session, headers=()):
    return call(node, "PUT", "/v1/kv/%s?release=%s" % (key, session), "", headers)
