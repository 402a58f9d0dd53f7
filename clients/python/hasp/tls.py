# SPDX-License-Identifier: MIT
"""TLS: a folder of certificates becomes an ssl.SSLContext."""

from __future__ import annotations

import os
import ssl
from typing import Any, Callable, Dict, NamedTuple, Optional, Tuple, Union

# Part of a message of OpenSSL -> its meaning for a client of hasp. If the node
# refused the handshake, the log of the node has the details.
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
    'WRONG_VERSION_NUMBER': 'the node does not use TLS: set tls.client there, or '
    'give no certificates',
}

Tls = Union[None, str, 'os.PathLike[str]', ssl.SSLContext]


class Texts(NamedTuple):
    """The files of a folder."""
    folder: str
    ca: bytes
    certificate: bytes = b''
    key: bytes = b''


def folder_of(tls: Tls) -> str:
    """Returns the folder; None: the environment's HASP_TLS, or ''; '': no
    TLS."""
    return os.environ.get('HASP_TLS', '') if tls is None else \
        str(os.fspath(tls))  # type: ignore[arg-type]


def read_folder(folder: str) -> Texts:
    """Reads ca.crt and, if the program has a certificate, client.crt and
    client.key. All are of one directory: Kubernetes mounts a secret with
    '..data' as a link to it, and replaces the link at each update."""
    at = _open_folder(folder) if os.path.isdir(folder) else None
    try:
        texts = Texts(folder, _read_file(at, folder, 'ca.crt'),
                      _read_file(at, folder, 'client.crt'),
                      _read_file(at, folder, 'client.key', check_mode))
    finally:
        if at is not None:
            os.close(at)
    if not texts.ca:
        path = os.path.join(folder, 'ca.crt')
        raise FileNotFoundError(f"TLS: '{path}' is missing or empty; create it "
                                'with: hasp cert user')
    return texts


def _open_folder(folder: str) -> Optional[int]:
    """Returns None if this system cannot read files of an open directory."""
    if os.open not in os.supports_dir_fd:
        return None
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
    try:
        at = os.open(os.path.join(folder, '..data'), flags)
    except OSError:
        return os.open(folder, flags)
    try:
        os.stat('ca.crt', dir_fd=at)
        return at
    except OSError:  # The certificates are not below the link.
        os.close(at)
        return os.open(folder, flags)


def _read_file(at: Optional[int], folder: str, name: str,
               check: Callable[[str, int], None] = lambda *_: None) -> bytes:
    """b'': the file does not exist."""
    path = os.path.join(folder, name)
    try:
        fd = os.open(path if at is None else name, os.O_RDONLY, dir_fd=at)
    except FileNotFoundError:
        return b''
    with open(fd, 'rb') as file:
        check(path, os.fstat(fd).st_mode)
        return file.read()


def context_from(texts: Texts) -> Tuple[ssl.SSLContext, str]:
    """Returns a context, and the user that its certificate names, or ''. A node
    is authenticated by the hasp name in its certificate, not by its host name:
    see peer_fault()."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname = False
    ca = os.path.join(texts.folder, 'ca.crt')
    if texts.ca.count(b'-----BEGIN') != texts.ca.count(b'-----END'):
        raise ssl.SSLError(f"'{ca}' is truncated: copy the file again")
    context.load_verify_locations(cadata=texts.ca.decode('ascii', 'replace'))
    if not texts.certificate and not texts.key:
        return context, ''
    _load_pair(context, texts)
    return context, _own_name(texts)


def _load_pair(context: ssl.SSLContext, texts: Texts) -> None:
    """Loads the certificate and key that were read. OpenSSL loads them only from
    a file, so they are written to an anonymous one."""
    certificate, key = (os.path.join(texts.folder, name)
                        for name in ('client.crt', 'client.key'))
    if not texts.certificate or not texts.key:
        missing = key if texts.certificate else certificate
        raise FileNotFoundError(f"TLS: '{missing}' is missing or empty; create "
                                'it with: hasp cert user')
    try:
        if hasattr(os, 'memfd_create'):
            with open(os.memfd_create('hasp', os.MFD_CLOEXEC), 'wb') as file:
                file.write(texts.certificate + b'\n' + texts.key)
                file.flush()
                context.load_cert_chain(f'/proc/self/fd/{file.fileno()}')
        else:
            context.load_cert_chain(certificate, key)
    except ssl.SSLError as error:
        if error.reason != 'KEY_VALUES_MISMATCH':
            raise ssl.SSLError(f"'{certificate}' or '{key}': {error}") from error
        raise ssl.SSLError(f"the key '{key}' does not match the certificate "
                           f"'{certificate}'") from error


def _own_name(texts: Texts) -> str:
    """The user that the client's own certificate names. A handshake with itself,
    in memory, also checks that a node with the same CAs would accept it."""
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_verify_locations(cadata=texts.ca.decode('ascii', 'replace'))
    server.verify_mode = ssl.CERT_REQUIRED
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client.check_hostname, client.verify_mode = False, ssl.CERT_NONE
    for context in (server, client):
        _load_pair(context, texts)
    there, back = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [client.wrap_bio(back, there),
            server.wrap_bio(there, back, server_side=True)]
    try:
        for end in [*ends, *ends]:
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                pass
    except ssl.SSLError as error:
        path = os.path.join(texts.folder, 'client.crt')
        raise ssl.SSLError(
            f"the certificate '{path}' was not issued by the CA in ca.crt, or "
            f'is not valid now: {error}') from error
    names = [value for kind, value in
             (ends[1].getpeercert() or {}).get('subjectAltName', ())
             if kind == 'URI' and '/user/' in value]
    return names[0] if names else ''


def explained(error: OSError) -> OSError:
    """The error with a message for people, if there is one."""
    if isinstance(error, ssl.SSLError):
        for part, sentence in SENTENCES.items():
            if part in str(error):
                return ssl.SSLError(sentence)
    return error


def check_mode(key: str, mode: int) -> None:
    """Checks that only its owner may read the key."""
    if os.name == 'posix' and mode & 0o027:
        raise PermissionError(
            f"key file '{key}' is mode {mode & 0o7777:04o}: chmod 0600 "
            '(Kubernetes: defaultMode 0400)')


def peer_fault(found: Optional[Dict[str, Any]],
               context: ssl.SSLContext) -> str:
    """Why the peer is not a node of the cluster, although the CA issued its
    certificate; '' if it is one, or if host names are checked instead. 'found'
    is the result of getpeercert()."""
    if context.check_hostname:
        return ''
    names = [value for kind, value in (found or {}).get('subjectAltName', ())
             if kind == 'URI' and value.startswith('hasp:')]
    clusters = {value for ca in context.get_ca_certs()
                for kind, value in ca.get('subjectAltName', ())
                if kind == 'URI' and value.startswith('hasp://')}
    if len(names) != 1:
        return "the node's certificate does not name exactly one hasp node"
    cluster, slash, rest = names[0].rpartition('/node/')
    if not slash or not rest.isdigit() or rest.startswith('0'):
        return "this is not a node's certificate: " + names[0]
    if clusters and cluster not in clusters:
        return f"the node's certificate is for '{cluster}'"
    return ''
