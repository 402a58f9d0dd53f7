# SPDX-License-Identifier: MIT
"""TLS: a folder of certificates becomes an ssl.SSLContext."""

from __future__ import annotations

import os
import ssl
from typing import Any, Dict, Hashable, Optional, Union

# What OpenSSL says has a part that tells what it means here. Of what a node has
# refused its log says more.
SENTENCES = {
    'self-signed certificate': "the node's certificate was made by another CA "
    "than that in ca.crt: take the cluster's",
    'unable to get local issuer': "the node's certificate was made by another "
    "CA than that in ca.crt: take the cluster's",
    'ALERT_UNKNOWN_CA': "the node does not know the CA of this client's "
    'certificate: take one made by hasp cert user',
    'ALERT_CERTIFICATE_EXPIRED': "this client's certificate has expired: hasp "
    'cert renew',
    'ALERT': "the node refuses this client's certificate; its log says why",
    'WRONG_VERSION_NUMBER': 'the node speaks plain: set tls.client there, or '
    'give no certificates',
}

Tls = Union[None, str, 'os.PathLike[str]', ssl.SSLContext]


def context_of(tls: Tls) -> Optional[ssl.SSLContext]:
    """For a folder with ca.crt and, if the program is to show who it is,
    client.crt and client.key; None: the environment's HASP_TLS, or plain; '':
    plain. A node is believed by its certificate, whatever its address is
    called: 'peer_fault' says what is wrong with it. A context of the program's
    own is taken as it is."""
    if isinstance(tls, ssl.SSLContext):
        return tls
    folder = folder_of(tls)
    if not folder:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname = False
    authority = os.path.join(folder, 'ca.crt')
    if not os.path.exists(authority):
        raise FileNotFoundError(f"TLS: there is no '{authority}'; make it with: "
                                'hasp cert user')
    context.load_verify_locations(authority)
    certificate = os.path.join(folder, 'client.crt')
    key = os.path.join(folder, 'client.key')
    if os.path.exists(certificate) or os.path.exists(key):
        check_mode(key)
        load_pair(context, certificate, key)
    return context


def folder_of(tls: Tls) -> str:
    return os.environ.get('HASP_TLS', '') if tls is None else \
        str(os.fspath(tls))  # type: ignore[arg-type]


def identity_of(tls: Tls) -> Hashable:
    """The same for what makes the same connections; certificates that were
    renewed are others."""
    if isinstance(tls, ssl.SSLContext):
        return tls
    folder = folder_of(tls)
    return folder and (folder, *sorted(
        (one.name, one.stat().st_ino, one.stat().st_mtime_ns)
        for one in os.scandir(folder)))


def load_pair(context: ssl.SSLContext, certificate: str, key: str) -> None:
    try:
        context.load_cert_chain(certificate, key)
    except ssl.SSLError as error:
        if error.reason != 'KEY_VALUES_MISMATCH':
            raise
        raise ssl.SSLError(f"the key '{key}' is not that of the certificate "
                           f"'{certificate}'") from error


def explained(error: OSError) -> OSError:
    """The error in a sentence for people, if there is one."""
    if isinstance(error, ssl.SSLError):
        for part, sentence in SENTENCES.items():
            if part in str(error):
                return ssl.SSLError(sentence)
    return error


def check_mode(key: str) -> None:
    """Checks that only its owner may read the key."""
    mode = os.stat(key).st_mode & 0o7777
    if os.name == 'posix' and mode & 0o027:
        raise PermissionError(
            f"key file '{key}' is mode {mode:04o}: chmod 0600 (Kubernetes: "
            'defaultMode 0400)')


def peer_fault(found: Optional[Dict[str, Any]],
               context: ssl.SSLContext) -> str:
    """Why the other side, whose certificate is of the CA, is no node of the
    cluster; '' if it is one, or if the names of hosts are checked. 'found' is
    what getpeercert() gives."""
    if context.check_hostname:
        return ''
    names = [value for kind, value in (found or {}).get('subjectAltName', ())
             if kind == 'URI' and value.startswith('hasp:')]
    clusters = {value for ca in context.get_ca_certs()
                for kind, value in ca.get('subjectAltName', ())
                if kind == 'URI' and value.startswith('hasp://')}
    if len(names) != 1:
        return "the node's certificate names nobody, or several"
    cluster, slash, rest = names[0].rpartition('/node/')
    if not slash or not rest.isdigit() or rest.startswith('0'):
        return "this is not a node's certificate: " + names[0]
    if clusters and cluster not in clusters:
        return f"the node's certificate is for '{cluster}'"
    return ''
