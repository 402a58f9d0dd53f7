// SPDX-License-Identifier: MIT
//
// A user's secret, from a file that only its owner can read.
'use strict';

const fs = require('node:fs');

/** Reads the file, which must be accessible to its owner only. */
function readSecret(file) {
  const fd = fs.openSync(file, 'r');
  try {
    const { mode } = fs.fstatSync(fd);
    if (process.platform !== 'win32' && mode & 0o077) {
      throw new Error(`'${file}' has a secret that others can read (mode `
        + `${(mode & 0o777).toString(8).padStart(3, '0')}): chmod 0600 it`);
    }
    return fs.readFileSync(fd, 'latin1');
  } finally {
    fs.closeSync(fd);
  }
}

/** The AUTH words of HELLO for the secret, a line hasp1.NAME.... as written by
 * 'hasp secret add'. */
function greetingOf(file, text) {
  const line = text.split('\n')[0].trim();
  const found = /^hasp1\.([\w.-]{1,64})\.[\w-]{43}$/.exec(line);
  if (!found) {
    throw new Error(`no secret in '${file}': a line hasp1.NAME.... is `
      + "expected, as 'hasp secret add' writes it");
  }
  return ['AUTH', found[1], line];
}

module.exports = { greetingOf, readSecret };
