#!/bin/bash
# SPDX-License-Identifier: MIT
#
# Runs the simulator against libraft's core built with its assertions, which
# Debian's build leaves out: a precondition that we break shows as an abort
# instead of silent corruption. The source is Debian's own, fetched with apt
# (checked by its signed index) into build/; if it is unavailable, this prints
# that and runs the simulator of the build unchanged.
#
#     tools/raft-asserts.sh BUILD SIM-ARGUMENT...    e.g. build/check --seeds 9
set -eu
build=$1
shift
arguments=("$@")
dir=build/raft-asserts
version=0.22.1

skip()
{
    printf 'raft-asserts: skipped: %s\n' "$1"
    exec "$build/sim" "${arguments[@]}"
}

fetch()
{
    local lists=$PWD/$dir/apt mirror suite=bookworm-backports
    mkdir -p "$lists/lists/partial" "$lists/cache"
    # shellcheck disable=SC1091
    [ "$(. /etc/os-release && echo "${VERSION_CODENAME:-}")" = bookworm ] ||
        suite=trixie
    mirror=$(apt-get indextargets --format '$(REPO_URI)' \
        'Created-By: Packages' 'Origin: Debian' 'Component: main' 2>/dev/null |
        sort -u | grep -v security | head -1)
    [ -n "$mirror" ] || return 1
    printf 'deb-src [signed-by=%s] %s %s main\n' \
        /usr/share/keyrings/debian-archive-keyring.gpg "$mirror" "$suite" \
        > "$lists/sources.list"
    apt=(apt-get -qq -o Dir::Etc::sourcelist="$lists/sources.list"
        -o Dir::Etc::sourceparts=- -o Dir::State::lists="$lists/lists"
        -o Dir::Cache="$lists/cache" -o APT::Sandbox::User=)
    "${apt[@]}" update >/dev/null 2>&1 || return 1
    # The packaging files may be missing at a mirror; the source is enough.
    (cd "$dir" && "${apt[@]}" source --download-only raft) \
        >/dev/null 2>&1 || true
    [ -f "$dir/raft_$version.orig.tar.gz" ]
}

mkdir -p "$dir"
[ -f "$dir/raft_$version.orig.tar.gz" ] || fetch ||
    skip "the source of libraft $version is not to be had here"
rm -rf "$dir/src" "$dir/obj"
mkdir -p "$dir/src" "$dir/obj"
tar -xf "$dir/raft_$version.orig.tar.gz" -C "$dir/src" --strip-components=1

# The core only: libraft's own I/O is not used; its legacy layer is, by symbol.
# The sources ask for "../include/raft.h", which is generated: they get the
# installed one.
objects=()
for source in "$dir"/src/src/*.c; do
    name=$(basename "$source" .c)
    case $name in
    uv | uv_* | fixture | syscall) continue ;;
    esac
    cc -std=c11 -D_GNU_SOURCE -DV0_ENABLED -O1 -g -fno-strict-aliasing -w \
        -UNDEBUG -I/usr/include \
        -c -o "$dir/obj/$name.o" "$source" ||
        skip "libraft's source does not compile here"
    objects+=("$dir/obj/$name.o")
done
nm -u "${objects[@]}" | grep -q __assert_fail ||
    { printf 'raft-asserts: the core has no assertions\n' >&2; exit 1; }

# shellcheck disable=SC2086
cc -pthread -o "$dir/sim" $SIM_OBJECTS "$build/libhasp-all.a" "${objects[@]}" \
    -luv -llmdb -lxxhash -lmicrohttpd -ljansson -lssl -lcrypto
exec "$dir/sim" "${arguments[@]}"
