// SPDX-License-Identifier: MIT
//
// TLS: a folder of certificates becomes the options of tls.connect().
'use strict';

const fs = require('node:fs');
const path = require('node:path');
const { X509Certificate } = require('node:crypto');

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

/** Who may read a key is who it says. */
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
  }
  return options;
}

module.exports = { tlsOptions };
