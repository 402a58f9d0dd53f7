#!/bin/bash
# SPDX-License-Identifier: MIT
#
# Builds the parts of a release in build/packages, only from the newest commit:
#
#   tools/package.sh source    hasp-VERSION.tar.gz
#   tools/package.sh deb       the Debian packages, with debhelper
#   tools/package.sh sbom      hasp-VERSION.spdx.json
#   tools/package.sh repo      repo/, a repository for apt of these packages,
#                              signed by the key $HASP_GPG_KEY
#   tools/package.sh release   source, deb, sbom; SHA256SUMS and its signature
#                              by the key of minisign in the file $HASP_MINISIGN
#
# HASP_TREE is another commit; HASP_OUT another folder. Files in that folder
# are not rebuilt, except by 'source' and 'deb'.
set -euo pipefail
cd "$(dirname "$0")/.."
version=$(sed -n 's/^VERSION := //p' Makefile)
tree=${HASP_TREE:-HEAD}
out=${HASP_OUT:-build/packages}
mkdir -p "$out"
out=$(realpath "$out")
source=$out/hasp-$version.tar.gz

die()
{
    printf 'package: %s\n' "$1" >&2
    exit 1
}
need()
{
    command -v "$1" > /dev/null ||
        die "$1 is missing; install it by: make deps-deb"
}

make_source()
{
    # Owner, mode and time come from git, not from the user who unpacked it.
    git -c tar.umask=0022 archive --format=tar --prefix="hasp-$version/" \
        "$tree" | gzip -9n > "$source.new"
    mv "$source.new" "$source"
    printf '%s\n' "$source"
}

make_deb()
{
    need dh
    [ -f "$source" ] || make_source > /dev/null
    local work
    work=$(mktemp -d)
    # shellcheck disable=SC2064
    trap "rm -rf '$work'" EXIT
    tar -xzf "$source" -C "$work"
    [ "$(cd "$work/hasp-$version" && dpkg-parsechangelog -S Version)" = \
        "$version" ] || die "debian/changelog is not of version $version"
    (cd "$work/hasp-$version" && dpkg-buildpackage -us -uc) \
        > "$out/build.log" 2>&1 || {
        tail -n 40 "$out/build.log" >&2
        die "dpkg-buildpackage failed, see $out/build.log"
    }
    rm -f "$out"/*.deb "$out"/hasp_*
    mv "$work"/*.deb "$out"
    mv "$work"/hasp_* "$out"
    ls "$out"/*.deb
}

make_sbom()
{
    compgen -G "$out/haspd_*.deb" > /dev/null || make_deb > /dev/null
    tools/sbom.py --version "$version" "$out"/*.deb \
        > "$out/hasp-$version.spdx.json"
    printf '%s\n' "$out/hasp-$version.spdx.json"
}

make_repo()
{
    need reprepro
    [ -n "${HASP_GPG_KEY:-}" ] || die "no key to sign with: set HASP_GPG_KEY to
  the fingerprint of one that gpg has (gpg --quick-generate-key ...)"
    compgen -G "$out/haspd_*.deb" > /dev/null || make_deb > /dev/null
    rm -rf "$out/repo"
    mkdir -p "$out/repo/conf"
    local codename
    codename=$(. /etc/os-release && printf '%s' "$VERSION_CODENAME")
    cat > "$out/repo/conf/distributions" <<TEXT
Origin: hasp
Label: hasp
Codename: $codename
Architectures: $(dpkg --print-architecture)
Components: main
Description: hasp, a lock service
SignWith: $HASP_GPG_KEY
TEXT
    local package
    for package in "$out"/*.deb; do
        case $package in *-dbgsym_*) continue ;; esac
        reprepro -s -b "$out/repo" includedeb "$codename" "$package"
    done
    gpg --batch --export "$HASP_GPG_KEY" > "$out/repo/hasp.gpg"
    rm -rf "$out/repo/conf" "$out/repo/db"
    printf '%s\n' "$out/repo"
}

make_release()
{
    need minisign
    [ -f "${HASP_MINISIGN:-}" ] || die "no key to sign with: set HASP_MINISIGN
  to the file of a secret key (minisign -G -W -s FILE -p FILE.pub)"
    [ -f "$source" ] || make_source > /dev/null
    compgen -G "$out/haspd_*.deb" > /dev/null || make_deb > /dev/null
    make_sbom > /dev/null
    (cd "$out" && sha256sum hasp-"$version".tar.gz hasp-"$version".spdx.json \
        *.deb > SHA256SUMS)
    minisign -S -s "$HASP_MINISIGN" -m "$out/SHA256SUMS" \
        -t "hasp $version" < /dev/null > /dev/null
    (cd "$out" && ls SHA256SUMS* && cat SHA256SUMS)
}

case ${1:-} in
    source | deb | sbom | repo | release) "make_$1" ;;
    *) sed -n '3,15s/^# \{0,1\}//p' "$0" >&2; exit 64 ;;
esac
