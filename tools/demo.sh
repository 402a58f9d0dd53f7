#!/bin/bash
# SPDX-License-Identifier: MIT
#
# Demonstrates a three-node cluster: a client acquires a lock, another client
# queues, the leader is killed with -9, the lock and the queue survive,
# the next holder gets a larger token, the killed node comes back and catches
# up. It exits by itself, with a failure if a step fails.
set -eu
cd "$(dirname "$0")/.."
build=$PWD/build/release
PATH=$build:$PATH
dir=$(mktemp -d)
began=$(date +%s%3N)
dev=
waiter=
restarted=

say()
{
    local now
    now=$(($(date +%s%3N) - began))
    printf '%2d.%03d s  %s\n' $((now / 1000)) $((now % 1000)) "$*"
}
fail()
{
    say "FAILED: $*"
    tail -n 20 "$dir"/n*/haspd.log 2>/dev/null || true
    exit 1
}
stop()
{
    for pid in $waiter $restarted $dev; do
        kill -TERM "$pid" 2>/dev/null || true
    done
    for pid in $waiter $restarted $dev; do
        wait "$pid" 2>/dev/null || true
    done
    rm -rf "$dir"
}
trap stop EXIT
# field KEY: the value of the first "KEY": in the JSON on standard input.
field()
{
    sed -n 's/.*"'"$1"'": *"\{0,1\}\([^",}]*\).*/\1/p' | head -1
}
# until_true SECONDS COMMAND...
until_true()
{
    local end=$(($(date +%s) + $1))
    shift
    until "$@"; do
        [ "$(date +%s)" -lt "$end" ] || return 1
        sleep 0.02
    done
}
# Below the kernel's range of ephemeral ports (from 32768
# on), which can be in use without a listener.
free_port()
{
    local port=$((12000 + RANDOM % 18000)) i
    while for i in 0 1 2 10 11 12 20 21 22; do
        (: < "/dev/tcp/127.0.0.1/$((port + i))") 2>/dev/null && break
    done; [ "$i" != 22 ]; do
        port=$((port + 40))
    done
    printf '%s' "$port"
}

port=$(free_port)
say 'starting three nodes on this machine (hasp dev)'
hasp dev --dir "$dir" --port "$port" > "$dir/ready" 2> "$dir/dev.log" &
dev=$!
started()
{
    grep -q '^ready' "$dir/ready" || ! kill -0 "$dev" 2>/dev/null
}
until_true 20 started && grep -q '^ready' "$dir/ready" ||
    fail 'the cluster did not start'
HASP_ENDPOINTS=$(sed -n 's/^ready endpoints=\([^ ]*\).*/\1/p' "$dir/ready")
export HASP_ENDPOINTS
IFS=, read -r -a pids <<< "$(sed -n 's/.*pids=\([^ ]*\).*/\1/p' "$dir/ready")"
leader()
{
    hasp -o json status 2>/dev/null | field leader
}
first=$(leader)
say "ready: node $first leads, the nodes are processes ${pids[*]}"

read -r token session secret <<< "$(hasp -o plain acquire orders --ttl 60s \
    --value 'first in line')"
[ -n "$secret" ] || fail 'hasp acquire printed no session'
say "\"orders\" is taken: token $token, session $session"

hasp run orders -- sh -c 'echo "$HASP_TOKEN"' > "$dir/next" 2> "$dir/next.log" &
waiter=$!
queued()
{
    hasp -o json show orders | grep -q '"waiting_ms"'
}
until_true 5 queued || fail 'the second client does not queue'
say 'a second client waits in the queue (hasp run orders -- ...)'

kill -9 "${pids[$((first - 1))]}"
killed=$(date +%s%3N)
say "node $first, the leader, is killed with -9"
until_true 10 hasp check orders "$token" > /dev/null 2>&1 ||
    fail 'no new leader knows the token'
say "node $(leader) leads now and says that token $token still holds," \
    "$(($(date +%s%3N) - killed)) ms after the kill"
queued || fail 'the queue was lost'
hasp show orders | sed 's/^/            /'

hasp release orders --session "$session:$secret" > /dev/null ||
    fail 'the holder could not release'
say 'the first holder gives the lock back to the new leader'
wait "$waiter" || fail 'the second client failed'
waiter=
next=$(cat "$dir/next")
[ "$next" -gt "$token" ] || fail "the next token $next is not above $token"
say "the second client held it with token $next, above $token"

haspd --config "$dir/n$first/haspd.conf" 2>> "$dir/n$first/haspd.log" &
restarted=$!
say "node $first is started again"
# True if all nodes are up and have applied the same index.
caught_up()
{
    local applied
    applied=$(hasp -o json status | sed -n \
        's/.*"applied": *\([0-9]*\).*/\1/p')
    [ "$(wc -l <<< "$applied")" = 3 ] && [ "$(sort -u <<< "$applied" |
        wc -l)" = 1 ]
}
until_true 10 caught_up 2>/dev/null || fail "node $first does not catch up"
say "node $first has caught up:"
hasp status 2>&1 | sed 's/^/            /'
say 'done: nothing was lost, nothing was granted twice'
