// SPDX-License-Identifier: MIT
//
// The credentials of a connection: certificates and a user's secret, from files
// that are read again before each connection.
'use strict';

const { randomUUID } = require('node:crypto');
const { greetingOf, readSecret } = require('./secret');
const { optionsOf, readFolder } = require('./tls');

const notTaken = (error) =>
  `the new certificates or secret are not taken: ${error.message}`;

/** The credentials of a folder and a secret file, shared by all links of the
 * process that use them. If the files are half written, or belong to another
 * user, the last good credentials stay in use. TLS options that the program
 * passed in memory are never replaced. */
class Credentials {
  constructor(tls, secretFile) {
    this.given = tls && typeof tls === 'object' ? tls : null;
    this.folder = this.given ? '' : tls;
    this.file = secretFile;
    this.id = randomUUID();
    this.isKnown = false; // A node has accepted a request.
    this.refused = ''; // Why the files cannot be used, as last reported.
    this.texts = this.read();
    Object.assign(this, this.made(this.texts));
  }

  read() {
    return { ...(this.folder ? readFolder(this.folder) : {}),
      secret: this.file ? readSecret(this.file) : '' };
  }

  /** 'who': the users that the connection authenticates as. */
  made(texts) {
    const greeting = this.file ? greetingOf(this.file, texts.secret) : [];
    const { secure, name } = this.folder ? optionsOf(this.folder, texts)
      : { secure: this.given, name: '' };
    return { secure, user: greeting, who: `${name} ${greeting[1] ?? ''}` };
  }

  /** Reads the files again. Returns whether changed files came into use and,
   * once for each reason, why the files cannot be used. */
  renew() {
    try {
      const texts = this.read();
      if (Object.keys({ ...texts, ...this.texts })
        .every((name) => texts[name] === this.texts[name])) {
        this.refused = '';
        return { hasChanged: false, notice: '' };
      }
      const made = this.made(texts);
      if (made.who !== this.who) {
        throw new Error('they belong to another user, which has no rights to '
          + 'this session');
      }
      Object.assign(this, made, { texts, refused: '' });
      return { hasChanged: true, notice: '' };
    } catch (error) {
      const text = notTaken(error);
      const isNews = text !== this.refused;
      this.refused = text;
      return { hasChanged: false, notice: isNews ? text : '' };
    }
  }
}

const known = new Map(); // WeakRefs of the credentials of files, by path.
const given = new WeakMap(); // Credentials of options that programs passed in.

/** Returns the same object for sessions with the same connections: while one
 * session uses the files, they can be half written when another one is
 * opened. */
function credentialsOf(tls = process.env.HASP_TLS ?? '',
  secretFile = process.env.HASP_SECRET_FILE ?? '') {
  const isGiven = tls !== null && typeof tls === 'object';
  const key = JSON.stringify([isGiven ? '' : tls, secretFile]);
  const all = isGiven ? given.get(tls) ?? new Map() : known;
  const before = all.get(key)?.deref();
  let made;
  try {
    made = new Credentials(tls ?? '', secretFile);
  } catch (error) {
    if (!before?.isKnown) {
      throw error;
    }
    return before;
  }
  if (before?.who === made.who) {
    return before;
  }
  if (isGiven) {
    given.set(tls, all);
  }
  all.set(key, new WeakRef(made));
  return made;
}

module.exports = { credentialsOf };
