// SPDX-License-Identifier: MIT
// What @medusajs/locking-redis uses of Medusa, which is large.
'use strict'

class MedusaError extends Error {
  static Types = { CONFLICT: 'conflict' }

  constructor (type, message) {
    super(message)
    this.type = type
  }
}

module.exports = { MedusaError, promiseAll: (all) => Promise.all(all) }
