// SPDX-License-Identifier: MIT
//
// TLS: a folder of certificates becomes the options of tls.connect().
'use strict';

const fs = require('node:fs');
const path = require('node:path');
const { X509Certificate, createPrivateKey } = require('node:crypto');

const ANOTHER_CA = "the node's certificate was made by another CA than that in "
  + "ca.crt: take the cluster's";

/** Part of a message of OpenSSL, and its meaning for a client of hasp. If the node
 * refused the handshake, the log of the node has the details. */
const SENTENCES = [
  ['self-signed certificate', ANOTHER_CA],
  ['unable to get local issuer', ANOTHER_CA],
  ['unable to verify the first', ANOTHER_CA],
  ['alert unknown ca', "the node does not know the CA of this client's "
    + 'certificate: take one made by hasp cert user'],
  ['alert certificate expired', "this client's certificate has expired: hasp "
    + 'cert renew'],
  ['SSL alert number', "the node refuses this client's certificate; its log "
    + 'says why'],
  ['wrong version number', 'the node does not use TLS: set tls.client there, or '
    + 'give no certificates'],
];

/** The URIs of hasp in a certificate. */
function namesOf(certificate) {
  return (certificate.subjectAltName ?? certificate.subjectaltname ?? '')
    .split(', ').filter((one) => one.startsWith('URI:hasp:'))
    .map((one) => one.slice(4));
}

/** Authenticates a node by the hasp name in its certificate, not by its host
 * name. */
function checkNode(clusters, certificate) {
  const names = namesOf(certificate);
  const found = names.length === 1
    ? /^(hasp:\/\/[^/]+)\/node\/[1-9]\d*$/.exec(names[0]) : null;
  if (!found) {
    return new Error("this is not a node's certificate: "
      + (names.join(', ') || 'it does not name a hasp node'));
  }
  return clusters.length === 0 || clusters.includes(found[1]) ? undefined
    : new Error(`the node's certificate is for '${found[1]}'`);
}

/** Checks that only its owner may read the key. */
function checkMode(file, mode) {
  if (process.platform !== 'win32' && mode & 0o027) {
    throw new Error(`key file '${file}' is mode `
      + `${(mode & 0o7777).toString(8).padStart(4, '0')}: chmod 0600 `
      + '(Kubernetes: defaultMode 0400)');
  }
}

/** The directory where the files are now. Kubernetes mounts a secret with
 * '..data' as a link to it, and replaces the link at each update. Returns a
 * path into the directory that no update redirects, and a function that closes
 * it. */
function openFolder(folder) {
  const data = path.join(folder, '..data');
  const real = fs.existsSync(path.join(data, 'ca.crt')) ? data : folder;
  const fd = fs.openSync(real, fs.constants.O_RDONLY | fs.constants.O_DIRECTORY);
  const inside = `/proc/self/fd/${fd}`;
  return { at: fs.existsSync(inside) ? inside : real,
    close: () => fs.closeSync(fd) };
}

/** '': the file does not exist. */
function readIn(at, folder, name) {
  let fd;
  try {
    fd = fs.openSync(path.join(at, name), 'r');
  } catch (error) {
    if (error.code === 'ENOENT') {
      return '';
    }
    throw error;
  }
  try {
    if (name.endsWith('.key')) {
      checkMode(path.join(folder, name), fs.fstatSync(fd).mode);
    }
    return fs.readFileSync(fd, 'latin1');
  } finally {
    fs.closeSync(fd);
  }
}

/** The contents of ca.crt and, if the program has a certificate, of client.crt
 * and client.key, from one directory. */
function readFolder(folder) {
  const { at, close } = openFolder(folder);
  try {
    return { ca: readIn(at, folder, 'ca.crt'),
      cert: readIn(at, folder, 'client.crt'),
      key: readIn(at, folder, 'client.key') };
  } finally {
    close();
  }
}

/** The certificates in a text. */
function certificatesIn(file, text) {
  const found = text.match(/-----BEGIN [^-]+-----[^]+?-----END [^-]+-----/g) ?? [];
  if (!found.length || text.split('-----BEGIN').length - 1 !== found.length) {
    throw new Error(`'${file}' has no certificate or is truncated: ` +
      'copy the file again');
  }
  return found.map((one) => new X509Certificate(one));
}

/** Checks that a node with the same CAs would accept the first certificate, with
 * the others as its chain. */
function checkChain(file, [own, ...between], authorities) {
  const isIssuer = (one, by) => one.checkIssued(by) && one.verify(by.publicKey);
  let last = own;
  for (const one of between) {
    last = isIssuer(last, one) ? one : last;
  }
  const now = Date.now();
  if (!authorities.some((one) => isIssuer(last, one)) ||
      now < Date.parse(own.validFrom) || now > Date.parse(own.validTo)) {
    throw new Error(`the certificate '${file}' was not issued by the CA in `
      + 'ca.crt, or is not valid now');
  }
}

/** Options of tls.connect() for the result of readFolder(), and the user that
 * the certificate names. */
function optionsOf(folder, { ca, cert, key }) {
  const authorities = certificatesIn(path.join(folder, 'ca.crt'), ca);
  const clusters = authorities.flatMap(namesOf);
  const secure = { ca, minVersion: 'TLSv1.3',
    checkServerIdentity: (_, found) => checkNode(clusters, found) };
  if (!cert && !key) {
    return { secure, name: '' };
  }
  const certificate = path.join(folder, 'client.crt');
  const chain = certificatesIn(certificate, cert);
  if (!chain[0].checkPrivateKey(createPrivateKey(key))) {
    throw new Error(`the key '${path.join(folder, 'client.key')}' does not match `
      + `the certificate '${certificate}'`);
  }
  checkChain(certificate, chain, authorities);
  return { secure: { ...secure, cert, key }, name: namesOf(chain[0]).join(' ') };
}

/** The error with a message for people, if there is one. */
function explained(error) {
  const found = SENTENCES.find(([part]) => error.message.includes(part));
  if (!found) {
    return error;
  }
  const told = new Error(found[1], { cause: error });
  told.isTrust = true;
  return told;
}

module.exports = { explained, optionsOf, readFolder };
