// SPDX-License-Identifier: MIT
import { EventEmitter } from 'node:events';

export type Code = 'UNREACHABLE' | 'UNKNOWN' | 'LOST' | 'SHORT' | 'NOTHELD' |
  'LIMIT' | 'DEADLOCK' | 'BLACKLISTED' | 'BADARG' | (string & {});

export class HaspError extends Error {
  readonly code: Code;
}

export interface SessionOptions {
  /** "host:port,..." or a list; default: HASP_ENDPOINTS, else loopback. */
  endpoints?: string | string[];
  /** Shown to people; default: program:pid. */
  name?: string;
  /** Lease in milliseconds; default 10000. */
  ttl?: number;
  /** After the last connection closed, the lease ends this soon (ms). */
  linger?: number;
  /** How long a request is tried, in milliseconds; default 10000. */
  timeout?: number;
}

export interface LockOptions {
  /** Locks with the same owner do not exclude each other. */
  owner?: string;
  shared?: boolean;
  /** A semaphore of this capacity. */
  slots?: number;
  /** Shown to people. */
  value?: string;
  /** Kept closed so long after its holder died (ms). */
  delay?: number;
  /** Bound of one hold (ms). */
  hold?: number;
  /** Ignore the queue, never the holders. */
  barge?: boolean;
}

/** 'name' and 'token' tell which hold; '' and 0: the session with all it holds.
 * 'text' is the message, or the reason. */
export interface HaspEvent {
  readonly name: string;
  readonly token: number;
  readonly text: string;
}

export class Session extends EventEmitter {
  static open(options?: SessionOptions): Promise<Session>;
  readonly id: string;
  lock(name: string, options?: LockOptions): Lock;
  state(): 'held' | 'jeopardy' | 'lost';
  remaining(): number;
  close(): Promise<void>;
  on(event: 'jeopardy' | 'safe' | 'lost' | 'please',
    listener: (event: HaspEvent) => void): this;
}

export class Lock {
  readonly name: string;
  /** The fencing token while it is held. */
  readonly token: number | null;
  acquire(waitMs?: number): Promise<boolean>;
  /** How often it is still held by this object's owner. */
  release(): Promise<number>;
  cancel(): Promise<boolean>;
  remaining(): number;
  guard(needMs: number): void;
}
