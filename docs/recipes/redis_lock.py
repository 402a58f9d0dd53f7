#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""redis-py's Lock, unmodified: only host and port name a node of hasp.

    redis_lock.py HOST:PORT
"""

import sys

import redis

host, port = sys.argv[1].rsplit(':', 1)
server = redis.Redis(host=host, port=int(port))
with server.lock('orders', timeout=10) as lock:
    other = server.lock('orders', timeout=10)
    print('second lock:', other.acquire(blocking=False))
    lock.extend(5, replace_ttl=True)
    print('still ours:', lock.owned())
