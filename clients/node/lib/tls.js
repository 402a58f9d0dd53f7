// SPDX-License-Identifier: MIT
//
// TLS: a folder of certificates becomes the options of tls.connect().
'use strict';

const fs = require('node:fs');
const path = require('node:path');
const { X509Certificate, createHash, createPrivateKey, randomUUID } =
  require('node:crypto');

const ANOTHER_CA = "the node's certificate was made by another CA than that in "
  + "ca.crt: take the cluster's";

/** What OpenSSL says, a part of it, and what that means here. Of what a node
 * has refused its log says more. */
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
  ['wrong version number', 'the node speaks plain: set tls.client there, or '
    + 'give no certificates'],
];

/** The URIs of hasp in a certificate. */
function namesOf(certificate) {
  return (certificate.subjectAltName ?? certificate.subjectaltname ?? '')
    .split(', ').filter((one) => one.startsWith('URI:hasp:'))
    .map((one) => one.slice(4));
}

/** A node is believed by its certificate, whatever its address is called. */
function checkNode(clusters, certificate) {
  const names = namesOf(certificate);
  const found = names.length === 1
    ? /^(hasp:\/\/[^/]+)\/node\/[1-9]\d*$/.exec(names[0]) : null;
  if (!found) {
    return new Error("this is not a node's certificate: "
      + (names.join(', ') || 'it names nobody'));
  }
  return clusters.length === 0 || clusters.includes(found[1]) ? undefined
    : new Error(`the node's certificate is for '${found[1]}'`);
}

/** Checks that only its owner may read the key. */
function readKey(file) {
  const mode = fs.statSync(file).mode & 0o7777;
  if (process.platform !== 'win32' && mode & 0o027) {
    throw new Error(`key file '${file}' is mode `
      + `${mode.toString(8).padStart(4, '0')}: chmod 0600 (Kubernetes: `
      + 'defaultMode 0400)');
  }
  return fs.readFileSync(file);
}

/** For a folder with ca.crt and, if the program is to show who it is,
 * client.crt and client.key; undefined: HASP_TLS, or plain; '': plain. Options
 * of the program's own, an object, are taken as they are. */
function tlsOptions(tls = process.env.HASP_TLS) {
  if (!tls || typeof tls === 'object') {
    return tls || null;
  }
  const ca = fs.readFileSync(path.join(tls, 'ca.crt'), 'utf8');
  const clusters = ca.match(/-----BEGIN[^]+?-----END CERTIFICATE-----/g)
    .flatMap((one) => namesOf(new X509Certificate(one)));
  const options = { ca, minVersion: 'TLSv1.3',
    checkServerIdentity: (_, found) => checkNode(clusters, found) };
  const certificate = path.join(tls, 'client.crt');
  const key = path.join(tls, 'client.key');
  if (fs.existsSync(certificate) || fs.existsSync(key)) {
    options.key = readKey(key);
    options.cert = fs.readFileSync(certificate);
    if (!new X509Certificate(options.cert)
      .checkPrivateKey(createPrivateKey(options.key))) {
      throw new Error(`the key '${key}' is not that of the certificate `
        + `'${certificate}'`);
    }
  }
  return options;
}

const ids = new WeakMap(); // Of options of programs' own.

/** The same text for what makes the same connections; certificates that were
 * renewed are others. */
function identityOf(tls, options) {
  if (options === null || typeof tls !== 'object') {
    return createHash('sha256').update(JSON.stringify(options)).digest('hex');
  }
  ids.set(tls, ids.get(tls) ?? randomUUID());
  return ids.get(tls);
}

/** The error in a sentence for people, if there is one. */
function explained(error) {
  const found = SENTENCES.find(([part]) => error.message.includes(part));
  return found ? new Error(found[1], { cause: error }) : error;
}

module.exports = { explained, identityOf, tlsOptions };
