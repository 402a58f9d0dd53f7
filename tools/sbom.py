#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A bill of materials of Debian packages: SPDX 2.3 as JSON.

    tools/sbom.py --version 0.1.0 PACKAGE.deb ...

It names each package, the files in it with their sums, and the packages of this
machine whose libraries its programs name (DT_NEEDED) or which it depends on to
link an archive; those of headers alone (uthash) are named, too, as build tools.
Needs binutils and dpkg. The same input gives the same bytes.
"""

import argparse
import functools
import hashlib
import json
import os
import re
import subprocess
import sys
import tempfile
import time

# Compiled into the programs, so it is not in DT_NEEDED.
HEADERS = ['uthash-dev']


def run(*words):
    return subprocess.run(words, check=True, capture_output=True,
                          text=True).stdout


def identifier(text):
    return 'SPDXRef-' + re.sub(r'[^A-Za-z0-9.-]', '-', text)


def digest(path, kind):
    with open(path, 'rb') as file:
        return hashlib.new(kind, file.read()).hexdigest()


def needed(path):
    """The sonames that an ELF file names."""
    with open(path, 'rb') as file:
        if file.read(4) != b'\x7fELF':
            return set()
    told = run('objdump', '-p', path)
    return set(re.findall(r'^\s+NEEDED\s+(\S+)', told, re.M))


@functools.lru_cache(maxsize=None)
def library(soname):
    """(the installed package that has it, its path)."""
    found = re.search(r'^\s+%s \([^)]*\) => (\S+)' % re.escape(soname),
                      run('ldconfig', '-p'), re.M)
    if found is None:
        sys.exit('sbom: no %s on this machine: install what the packages '
                 'need first' % soname)
    path = found.group(1)
    # dpkg may know it by its path from before /lib became a link.
    for candidate in (path, os.path.realpath(path),
                      re.sub('^/usr', '', os.path.realpath(path))):
        owner = subprocess.run(['dpkg-query', '-S', candidate],
                               capture_output=True, text=True).stdout
        if owner:
            return owner.split(':')[0], path
    sys.exit('sbom: no package has %s' % path)


def installed(name):
    """The SPDX package of an installed package."""
    version, source, home, arch = run(
        'dpkg-query', '-W', '-f',
        '${Version}\n${source:Package}\n${Homepage}\n${Architecture}\n',
        name).split('\n')[:4]
    return {
        'SPDXID': identifier('debian-' + name),
        'name': name,
        'versionInfo': version,
        'supplier': 'Organization: Debian',
        'downloadLocation': 'NOASSERTION',
        'filesAnalyzed': False,
        'licenseConcluded': 'NOASSERTION',
        'licenseDeclared': 'NOASSERTION',
        'copyrightText': 'NOASSERTION',
        'externalRefs': [{
            'referenceCategory': 'PACKAGE-MANAGER',
            'referenceType': 'purl',
            'referenceLocator': 'pkg:deb/debian/%s@%s?arch=%s' % (
                name, version.replace('+', '%2B').replace(':', '%3A')
                .replace('~', '~'), arch),
        }],
    }


def own(path, fields, files):
    code = hashlib.sha1(
        ''.join(sorted(f['checksums'][0]['checksumValue'] for f in files))
        .encode()).hexdigest()
    return {
        'SPDXID': identifier('package-' + fields['Package']),
        'name': fields['Package'],
        'versionInfo': fields['Version'],
        'packageFileName': os.path.basename(path),
        'supplier': 'Organization: The hasp authors',
        'downloadLocation': 'NOASSERTION',
        'filesAnalyzed': True,
        'packageVerificationCode': {'packageVerificationCodeValue': code},
        'checksums': [{'algorithm': 'SHA256',
                       'checksumValue': digest(path, 'sha256')}],
        'licenseConcluded': 'MIT',
        'licenseDeclared': 'MIT',
        'copyrightText': 'Copyright 2026 The hasp authors',
    }


def relation(one, kind, other):
    return {'spdxElementId': one, 'relationshipType': kind,
            'relatedSpdxElement': other}


def add_package(document, path):
    names = ('Package', 'Version', 'Depends')
    told = run('dpkg-deb', '-f', path, *names)
    fields = dict(re.findall(r'^(\w+): (.*)$', told, re.M))
    files, sonames = [], set()
    with tempfile.TemporaryDirectory() as folder:
        run('dpkg-deb', '-x', path, folder)
        for base, _, found in sorted(os.walk(folder)):
            for name in sorted(found):
                full = os.path.join(base, name)
                if os.path.islink(full):
                    continue
                place = '.' + full[len(folder):]
                files.append({
                    'SPDXID': identifier(
                        'file-%s%s' % (fields['Package'], place[1:])),
                    'fileName': place,
                    'checksums': [
                        {'algorithm': 'SHA1',
                         'checksumValue': digest(full, 'sha1')},
                        {'algorithm': 'SHA256',
                         'checksumValue': digest(full, 'sha256')}],
                    'licenseConcluded': 'MIT',
                    'copyrightText': 'Copyright 2026 The hasp authors',
                })
                sonames |= needed(full)
    package = own(path, fields, files)
    document['packages'].append(package)
    document['files'] += files
    document['relationships'].append(
        relation('SPDXRef-DOCUMENT', 'DESCRIBES', package['SPDXID']))
    document['relationships'] += [
        relation(package['SPDXID'], 'CONTAINS', file['SPDXID'])
        for file in files]
    # Programs with the archive link its package's dependencies.
    linked = {library(soname)[0] for soname in sonames}
    linked |= {name for name in re.findall(r'(?:^|, )([a-z0-9.+-]+)',
                                           fields.get('Depends', ''))
               if fields['Package'].endswith('-dev')
               and name.endswith('-dev') and not name.startswith('libhasp')}
    return package['SPDXID'], linked, sonames


def add_indirect(document, foreign, sonames):
    """The libraries' own dependencies, as ldd prints them."""
    seen, todo = set(), sorted(sonames)
    while todo:
        soname = todo.pop(0)
        if soname in seen:
            continue
        seen.add(soname)
        name, path = library(soname)
        further = sorted(needed(path))
        todo += further
        for other in sorted({library(one)[0] for one in further} - {name}):
            foreign.setdefault(other, installed(other))
            edge = relation(foreign[name]['SPDXID'], 'DEPENDS_ON',
                            foreign[other]['SPDXID'])
            if edge not in document['relationships']:
                document['relationships'].append(edge)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--version', required=True)
    parser.add_argument('packages', nargs='+')
    args = parser.parse_args()
    made = int(os.environ.get('SOURCE_DATE_EPOCH') or run(
        'git', 'log', '-1', '--format=%ct'))
    packages = sorted(path for path in args.packages
                      if '-dbgsym_' not in path)
    sums = ''.join(digest(path, 'sha256') for path in packages)
    document = {
        'spdxVersion': 'SPDX-2.3',
        'dataLicense': 'CC0-1.0',
        'SPDXID': 'SPDXRef-DOCUMENT',
        'name': 'hasp-' + args.version,
        # A name, not an address: it identifies these packages.
        'documentNamespace': 'urn:hasp:%s:%s' % (
            args.version, hashlib.sha256(sums.encode()).hexdigest()),
        'creationInfo': {
            'created': time.strftime('%Y-%m-%dT%H:%M:%SZ',
                                     time.gmtime(made)),
            'creators': ['Organization: The hasp authors',
                         'Tool: tools/sbom.py-' + args.version],
        },
        'packages': [], 'files': [], 'relationships': [],
    }
    foreign, all_sonames = {}, set()
    for path in packages:
        spdx_id, linked, sonames = add_package(document, path)
        all_sonames |= sonames
        for name in sorted(linked):
            foreign.setdefault(name, installed(name))
            document['relationships'].append(relation(
                spdx_id, 'DEPENDS_ON', foreign[name]['SPDXID']))
    add_indirect(document, foreign, all_sonames)
    for name in HEADERS:
        foreign.setdefault(name, installed(name))
        document['relationships'] += [
            relation(foreign[name]['SPDXID'], 'BUILD_DEPENDENCY_OF',
                     identifier('package-' + built))
            for built in ('haspd', 'libhaspnode-dev')]
    document['packages'] += [foreign[name] for name in sorted(foreign)]
    json.dump(document, sys.stdout, indent=1, sort_keys=True)
    print()


if __name__ == '__main__':
    main()
