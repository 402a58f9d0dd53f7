#!/bin/sh
# SPDX-License-Identifier: MIT
#
# Installs the dependencies of hasp's build and tests, on Debian 12 and 13.
#
#   tools/deps.sh build   those of the build, as root or with sudo
#   tools/deps.sh         also those of the tests
#   tools/deps.sh deb     those of the build and the packages (make deb, repo,
#                         release, test-deb)
#   tools/deps.sh image   also those of the image and the manifests for
#                         Kubernetes (make image, test-image,
#                         test-kubernetes)
#   tools/deps.sh check [build | deb | image]
#                         exit 0 if nothing is missing (quick, changes nothing)
#
# promtool, which tests packaging/alerts.yml, is a separate package in Debian
# 13. In 12 it is part of Prometheus, with a service and 100 MB. Only promtool
# is extracted, to build/.
#
# libraft 0.22 is in bookworm-backports. Its address is derived from the
# mirrors that this machine uses, so no host is named here.
set -eu

build='gcc make patch pkg-config libraft-dev libuv1-dev liblmdb-dev
    uthash-dev libxxhash-dev
    libinih-dev libsmartcols-dev libjansson-dev libsystemd-dev
    libmicrohttpd-dev libssl-dev'
test='libcmocka-dev clang libclang-rt-dev lld clang-format
    python3 python3-pytest
    python3-pytest-xdist python3-pip python3-venv python3-setuptools
    python3-wheel python3-redis python3-prometheus-client python3-jsonschema
    mandoc redis-tools nodejs chromium chromium-driver python3-selenium
    curl dnsmasq-base iproute2 iptables procps strace spin systemd
    golang-go default-jdk-headless mypy node-typescript
    python3-consul python3-tooz
    python3-celery python3-apscheduler python3-django faketime
    libquartz2-java libh2-java golang-opentelemetry-otel-dev'
deb='debhelper dpkg-dev dh-python git lintian pybuild-plugin-pyproject
    python3-all python3-setuptools
    piuparts mmdebstrap systemd-container reprepro minisign gpg gpg-agent'
image='umoci skopeo runc kubernetes-client python3-yaml nodejs iproute2
    dnsmasq-base'

cd "$(dirname "$0")/.."
promtool=build/promtool

missing()
{
    # shellcheck disable=SC2086
    dpkg-query -W -f '${Package} ${db:Status-Status}\n' $wanted \
        2>/dev/null | awk '$2 == "installed" { print $1 }' | sort -u > "$have"
    for package in $wanted; do
        grep -qx "$package" "$have" || printf '%s ' "$package"
    done
    if [ "$purpose" = test ]; then
        # Included in Node.js if that is not Debian's.
        command -v npm >/dev/null || printf 'npm '
        command -v promtool >/dev/null || [ -x $promtool ] ||
            printf 'promtool '
    fi
    # bookworm's own libraft 0.15 loses acknowledged writes.
    if grep -qx libraft-dev "$have"; then
        version=$(dpkg-query -W -f '${Version}' libraft-dev)
        dpkg --compare-versions "$version" ge 0.22 || printf 'libraft-dev '
    fi
}

die()
{
    printf 'deps: %s\n' "$1" >&2
    exit 1
}

action=install
[ "${1:-}" = check ] && action=check && shift
purpose=${1:-test}
case $purpose in
    build) wanted=$build ;;
    test) wanted="$build $test" ;;
    deb) wanted="$build $deb" ;;
    image) wanted="$build $deb $image" ;;
    *) die "unknown purpose '$purpose': build, test, deb or image" ;;
esac

have=$(mktemp)
trap 'rm -f "$have" "${list:-}"' EXIT
command -v dpkg-query >/dev/null || die "this is not a Debian system:
  install these by hand: $wanted"

todo=$(missing)
if [ $action = check ]; then
    [ -z "$todo" ] && exit 0
    printf 'missing: %s\n' "$todo" >&2
    exit 1
fi
[ -n "$todo" ] || exit 0

take_promtool()
{
    folder=$(mktemp -d)
    chmod 0755 "$folder"
    package=promtool
    apt-cache show promtool >/dev/null 2>&1 || package=prometheus
    (cd "$folder" && timeout 300 apt-get -qq \
        -o APT::Sandbox::User=root download $package) >&2 &&
        mkdir -p build &&
        dpkg-deb --fsys-tarfile "$folder"/$package*.deb |
        tar -xO ./usr/bin/promtool > "$folder/promtool" &&
        [ -s "$folder/promtool" ] && chmod +x "$folder/promtool" &&
        mv "$folder/promtool" $promtool
    taken=$?
    rm -rf "$folder"
    return $taken
}

# Needs no root if the mirrors' lists exist.
if [ "$todo" = 'promtool ' ] && take_promtool; then
    exit 0
fi

run=
if [ "$(id -u)" != 0 ]; then
    command -v sudo >/dev/null ||
        die "root is needed to install: $todo
  run this as root, or install sudo"
    run=sudo
fi
apt()
{
    $run env DEBIAN_FRONTEND=noninteractive apt-get -qq \
        -o Dpkg::Use-Pty=0 -o Acquire::Retries=3 "$@"
}

printf 'deps: installing %s\n' "$todo"
apt update || printf 'deps: apt-get update had errors, continuing\n' >&2

codename=$(. /etc/os-release && printf '%s' "${VERSION_CODENAME:-unknown}")
candidate()
{
    apt-cache policy libraft-dev | awk '$1 == "Candidate:" { print $2 }'
}
raft=libraft-dev
if [ "$codename" = bookworm ]; then
    raft=libraft-dev/bookworm-backports
    known=$(apt-get indextargets --format '$(SUITE) $(CODENAME)' \
        'Created-By: Packages' | grep -c bookworm-backports || true)
    if [ "$known" = 0 ]; then
        target=/etc/apt/sources.list.d/hasp-bookworm-backports.list
        mirrors=$(apt-get indextargets --format '$(REPO_URI)' \
            'Created-By: Packages' 'Origin: Debian' 'Codename: bookworm' \
            'Component: main' | sort -u)
        [ -n "$mirrors" ] || die "apt knows no mirror of Debian bookworm:
  add one to /etc/apt/sources.list and run 'make deps' again"
        list=$(mktemp)
        found=
        for mirror in $mirrors; do
            printf 'deb [signed-by=%s] %s bookworm-backports main\n' \
                /usr/share/keyrings/debian-archive-keyring.gpg \
                "$mirror" > "$list"
            $run install -m 0644 "$list" "$target"
            if apt update --error-on=any \
                -o Dir::Etc::sourcelist="$target" \
                -o Dir::Etc::sourceparts=- \
                -o APT::Get::List-Cleanup=0; then
                found=yes
                break
            fi
            $run rm -f "$target"
        done
        [ -n "$found" ] || die "no mirror in use has bookworm-backports, which
  holds libraft 0.22: add a mirror that has it and run 'make deps' again"
    fi
else
    dpkg --compare-versions "$(candidate)" ge 0.22 ||
        die "libraft-dev 0.22 is not in this machine's sources
  (it is in bookworm-backports and in trixie)"
fi

packages=$(printf '%s\n' $todo | grep -vx -e libraft-dev -e promtool |
    sort -u || true)
# shellcheck disable=SC2086
apt install -y --no-install-recommends $raft $packages >/dev/null ||
    die "apt-get could not install: $todo"
case "$todo" in
    *promtool*) take_promtool || die "promtool could not be taken from the
  package prometheus: install it by hand" ;;
esac
todo=$(missing)
[ -z "$todo" ] || die "still missing after the installation: $todo"
printf 'deps: all there\n'
