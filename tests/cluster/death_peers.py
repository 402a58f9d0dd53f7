#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""One holder of a lock, or one that waits for it, at a peer of hasp: for
bench_death.py, which kills the holder.

    death_peers.py etcd|zookeeper|redisson ENDPOINT LOCK TTL_S MB

Prints "held" and the time on CLOCK_MONOTONIC when it has the lock. etcd: its
own lock service, by its JSON gateway, under a lease that is kept alive.
ZooKeeper: the lock recipe of kazoo, an ephemeral sequential node. Redisson runs
on Java only; this speaks its protocol to Redis: a hash with a
watchdog that renews it at a third of the TTL, waiters on a channel that the
holder's unlock would wake."""

import base64
import http.client
import json
import sys
import threading
import time
import uuid


def keep(every_s, renew):
    def run():
        while True:
            time.sleep(every_s)
            renew()
    threading.Thread(target=run, daemon=True).start()


def etcd(endpoint, lock, ttl_s):
    def post(path, **body):
        connection = http.client.HTTPConnection(endpoint, timeout=200)
        connection.request('POST', path, json.dumps(body))
        return json.load(connection.getresponse())

    lease = post('/v3/lease/grant', TTL=str(ttl_s))['ID']
    keep(ttl_s / 3, lambda: post('/v3/lease/keepalive', ID=lease))
    key = post('/v3/lock/lock', lease=lease,
               name=base64.b64encode(lock.encode()).decode())
    assert 'key' in key, key


def zookeeper(endpoint, lock, ttl_s):
    import kazoo.client
    client = kazoo.client.KazooClient(endpoint, timeout=ttl_s)
    client.start(60)
    assert client.client_id is not None
    client.Lock('/' + lock, uuid.uuid4().hex).acquire()
    zookeeper.client = client  # It is not to be collected.


TAKE = """
if redis.call('exists', KEYS[1]) == 0 then
    redis.call('hset', KEYS[1], ARGV[2], 1)
    redis.call('pexpire', KEYS[1], ARGV[1])
    return -1
end
return redis.call('pttl', KEYS[1])
"""


def redisson(endpoint, lock, ttl_s):
    import redis
    host, _, port = endpoint.partition(':')
    server = redis.Redis(host, int(port))
    me = uuid.uuid4().hex + ':1'
    channel = server.pubsub()
    channel.subscribe('redisson_lock__channel:{%s}' % lock)
    while True:
        left_ms = server.eval(TAKE, 1, lock, ttl_s * 1000, me)
        if left_ms == -1:
            break
        channel.get_message(timeout=left_ms / 1000)
    keep(ttl_s / 3, lambda: server.pexpire(lock, ttl_s * 1000))


def main():
    system, endpoint, lock, ttl_s, mb = sys.argv[1:]
    memory = bytearray(int(mb) << 20)
    for i in range(0, len(memory), 4096):
        memory[i] = 1
    {'etcd': etcd, 'zookeeper': zookeeper, 'redisson': redisson}[system](
        endpoint, lock, int(ttl_s))
    print('held %.6f' % time.monotonic(), flush=True)
    time.sleep(300)


main()
