#!/bin/bash
# SPDX-License-Identifier: MIT
#
# Builds the container image, build/packages/hasp-VERSION-image.tar, an archive
# in the OCI layout, from the Debian packages there (tools/package.sh deb) and
# the libraries that they depend on. There is no daemon, no shell in the
# image, and nothing that is not needed at run time; docs/image.md describes it.
#
#   tools/image.sh             the archive
#   tools/image.sh root FOLDER only the root, FOLDER/root.tar, for
#                              packaging/image/Containerfile
#
# The libraries come from the mirrors of this machine's apt, for the same
# release; libraft of Debian 12 from its backports. HASP_OUT is another folder.
set -euo pipefail
cd "$(dirname "$0")/.."
version=$(sed -n 's/^VERSION := //p' Makefile)
released=$(sed -n 's/^RELEASED := //p' Makefile)
out=${HASP_OUT:-build/packages}
mkdir -p "$out"
out=$(realpath "$out")
export SOURCE_DATE_EPOCH
SOURCE_DATE_EPOCH=$(date -u -d "$released" +%s)
user=65532

die()
{
    printf 'image: %s\n' "$1" >&2
    exit 1
}
need()
{
    command -v "$1" > /dev/null ||
        die "$1 is missing; install it by: make deps-image"
}

# Lines for sources.list, with the mirrors of this machine's apt.
sources()
{
    apt-get indextargets --format '$(REPO_URI) $(CODENAME) $(COMPONENT)' \
        'Created-By: Packages' | awk -v name="$codename" '
        $3 == "main" && ($2 == name || $2 == name "-updates" ||
            $2 == name "-security" || $2 == name "-backports") {
            print "deb", $1, $2, "main"
        }' | sort -u
}

# The libraries that the two packages depend on, as apt names them.
libraries()
{
    local raft=libraft0
    [ "$codename" != bookworm ] || raft=libraft0/bookworm-backports
    dpkg-deb -f "$1" Depends > "$work/depends"
    dpkg-deb -f "$2" Depends >> "$work/depends"
    tr ',' '\n' < "$work/depends" | sed 's/[|(].*//; s/ //g' | grep '^lib' |
        sed "s|^libraft0\$|$raft|" | sort -u | paste -sd,
}

# Adds the rest to the libraries; $1 is the root. mmdebstrap runs it.
fill()
{
    local root=$1 package
    rm -rf "$root"/usr/share/{bug,doc-base,lintian,locale,man,info} \
        "$root"/usr/lib/*/{gconv,engines-3,ossl-modules,audit} \
        "$root"/usr/lib/{locale,systemd,tmpfiles.d,sysusers.d} \
        "$root"/{boot,home,media,mnt,opt,srv,usr/games,usr/local} \
        "$root"/var/{cache,log,backups,mail,opt,local,spool} \
        "$root"/var/lib/{apt,dpkg,pam,misc} "$root"/etc/apt \
        "$root"/etc/{resolv.conf,hostname,machine-id,fstab,dpkg} \
        "$root"/usr/share/libgcrypt20 "$root"/tmp/*
    find "$root"/usr/share/doc -type f ! -name copyright -delete
    for package in "$HASP_DEB_DAEMON" "$HASP_DEB_TOOL"; do
        dpkg-deb --fsys-tarfile "$package" | tar -x -C "$root" \
            --no-same-owner --wildcards './usr/*bin/*' \
            './usr/share/doc/*/copyright'
    done
    install -m 0644 "$HASP_SBOM" "$root/usr/share/doc/haspd/hasp.spdx.json"
    mkdir -p "$root"/{etc,proc,sys,dev,run,tmp,var/lib/hasp}
    cp /usr/lib/os-release "$root/etc/os-release"
    printf '%s\n' root:x:0:0:root:/:/sbin/nologin \
        hasp:x:$user:$user:hasp:/var/lib/hasp:/sbin/nologin > "$root/etc/passwd"
    printf '%s\n' root:x:0: hasp:x:$user: > "$root/etc/group"
    printf '%s\n' 'passwd: files' 'group: files' 'hosts: files dns' \
        > "$root/etc/nsswitch.conf"
    chmod 1777 "$root/tmp"
    chmod 0700 "$root/var/lib/hasp"
    chown $user:$user "$root/var/lib/hasp"
    find "$root"/{etc,usr,var} -depth -type d -empty \
        ! -path "$root/var/lib/hasp" -delete
}

make_root()
{
    need mmdebstrap
    local list
    compgen -G "$out/haspd_*.deb" > /dev/null ||
        tools/package.sh deb > /dev/null
    HASP_DEB_DAEMON=$(ls "$out"/haspd_*.deb)
    HASP_DEB_TOOL=$(ls "$out"/hasp_*.deb)
    HASP_SBOM=$work/spdx.json
    tools/sbom.py --version "$version" "$HASP_DEB_DAEMON" "$HASP_DEB_TOOL" \
        > "$HASP_SBOM"
    export HASP_DEB_DAEMON HASP_DEB_TOOL HASP_SBOM
    list=$(sources)
    [ -n "$list" ] || die "apt of this machine knows no mirror of $codename"
    mmdebstrap --quiet --variant=extract \
        --include="$(libraries "$HASP_DEB_DAEMON" "$HASP_DEB_TOOL")" \
        --skip=cleanup,output/dev \
        --extract-hook="tools/image.sh fill \"\$1\"" \
        "$codename" "$1" - <<< "$list"
}

make_archive()
{
    need umoci
    local layout=$work/layout image name
    image=$layout:$version
    make_root "$work/root.tar"
    umoci init --layout "$layout"
    umoci new --image "$image"
    umoci raw add-layer --image "$image" "$work/root.tar" \
        --history.created "${released}T00:00:00Z" \
        --history.created_by 'tools/image.sh'
    config=(--no-history --created "${released}T00:00:00Z" --os linux
        --architecture "$(dpkg --print-architecture)" --config.user $user:$user
        --config.volume /var/lib/hasp --config.workingdir /var/lib/hasp
        --config.entrypoint /usr/sbin/haspd --config.entrypoint --container
        --config.env PATH=/usr/sbin:/usr/bin --config.stopsignal SIGTERM)
    for port in 7420 7421 7422; do
        config+=(--config.exposedports $port/tcp)
    done
    while IFS='=' read -r name value; do
        config+=(--config.label "$name=$value"
            --manifest.annotation "$name=$value")
    done < <(sed "s/@VERSION@/$version/; s/@RELEASED@/$released/" \
        packaging/image/labels)
    umoci config --image "$image" "${config[@]}"
    umoci gc --layout "$layout"
    tar -C "$layout" --sort=name --owner=0 --group=0 --numeric-owner \
        --mtime="@$SOURCE_DATE_EPOCH" -cf "$work/image.tar" .
    mv "$work/image.tar" "$out/hasp-$version-image.tar"
    printf '%s\n' "$out/hasp-$version-image.tar"
}

if [ "${1:-}" = fill ]; then
    fill "$2"
    exit 0
fi
codename=$(. /etc/os-release && printf '%s' "${VERSION_CODENAME:-}")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
case ${1:-archive} in
    archive) make_archive ;;
    root)
        mkdir -p "$2"
        make_root "$2/root.tar"
        ;;
    *) sed -n '3,15s/^# \{0,1\}//p' "$0" >&2; exit 64 ;;
esac
