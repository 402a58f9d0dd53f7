// SPDX-License-Identifier: MIT
//
// A user's secret, from a file that nobody else may read.
'use strict';

const fs = require('node:fs');

/** What HELLO says of the user whose secret stands in the file, a line
 * hasp1.NAME.... as 'hasp secret add' writes it; undefined: HASP_SECRET_FILE, or
 * nothing; '': nothing. It is read once. */
function greetingOf(file = process.env.HASP_SECRET_FILE) {
  if (!file) {
    return [];
  }
  const { mode } = fs.statSync(file);
  if (process.platform !== 'win32' && mode & 0o077) {
    throw new Error(`'${file}' has a secret that others can read (mode `
      + `${(mode & 0o777).toString(8).padStart(3, '0')}): chmod 0600 it`);
  }
  const line = fs.readFileSync(file, 'latin1').split('\n')[0].trim();
  const found = /^hasp1\.([\w.-]{1,64})\.[\w-]{43}$/.exec(line);
  if (!found) {
    throw new Error(`no secret in '${file}': a line hasp1.NAME.... is `
      + "expected, as 'hasp secret add' writes it");
  }
  return ['AUTH', found[1], line];
}

module.exports = { greetingOf };
