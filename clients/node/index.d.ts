// SPDX-License-Identifier: MIT
// All times are in milliseconds.
import { EventEmitter } from 'node:events';

declare global {
  // As newer libraries of TypeScript have it; older ones do not know the name.
  interface SymbolConstructor {
    readonly asyncDispose: unique symbol;
  }
}

export type Code = 'UNREACHABLE' | 'UNKNOWN' | 'LOST' | 'SHORT' | 'NOTHELD' |
  'TIMEDOUT' | 'LIMIT' | 'DEADLOCK' | 'BLACKLISTED' | 'BADARG' | (string & {});

export class HaspError extends Error {
  readonly code: Code;
}

export interface SessionOptions {
  /** "host:port,..." or a list; "unix:/path" is a node's listen.local on this
   * machine, never encrypted. Default: HASP_ENDPOINTS, else loopback. */
  endpoints?: string | string[];
  /** Shown to people; default: program:pid. */
  name?: string;
  /** Locks pass on so long after the last heartbeat; default 10000. */
  ttl?: number;
  /** And so long after the last connection closed; default 0: after ttl. */
  linger?: number;
  /** How long a request is tried; default 10000. */
  timeout?: number;
  /** Unless alive() is called so often, the lease is not renewed. */
  alive?: number;
  /** A folder with ca.crt, and client.crt with client.key ('hasp cert user'
   * makes it), or options of tls.connect(); default: HASP_TLS, else plain. */
  tls?: string | object;
  /** A file with the secret of a user ("hasp secret add" writes it, 0600);
   * default: HASP_SECRET_FILE, else who the certificate says, or anyone. */
  secretFile?: string;
  /** A session without end: no time ends it, so ttl and linger mean nothing. Its
   * holds outlive the program until somebody gives them back or breaks them. */
  durable?: boolean;
  /** Why, for whoever finds the lock closed: at most 128 bytes. */
  reason?: string;
  /** A connection that is not shared with the other sessions of the process. */
  ownConnection?: boolean;
}

export interface LockOptions {
  /** The same owner may acquire again, and must release as often. */
  owner?: string;
  shared?: boolean;
  /** Held by so many at once; all must say the same number. */
  slots?: number;
  /** Shown to people. */
  value?: string;
  /** Kept closed so long after its holder died. */
  delay?: number;
  /** Bound of one hold. Who enters a hold again has the bound which that has. */
  hold?: number;
  /** Ignore the queue, never the holders. */
  barge?: boolean;
  /** For acquire(), where that says none. */
  timeout?: number;
}

/** A number is the wait: Infinity (the default): for ever, 0: only tries. */
export type How = number | { wait?: number; signal?: AbortSignal };

/** 'name' and 'token' tell which hold; '' and 0: the session with all it holds.
 * 'text' is the message, or the reason. */
export interface HaspEvent {
  readonly name: string;
  readonly token: number;
  readonly text: string;
}

export interface Change {
  /** 'gap': changes may have been missed before this one. */
  readonly kind: 'granted' | 'queued' | 'wait-ended' | 'released' | 'expired' |
    'delayed' | 'delay-over' | 'blacklisted' | 'please' | 'gap';
  readonly name: string;
  readonly session: number;
  readonly token: number;
  readonly index: number;
  readonly text: string;
}

export interface Leader {
  readonly value: string;
  readonly token: number;
  readonly client: string;
}

export class Session extends EventEmitter {
  private constructor();
  static open(options?: SessionOptions): Promise<Session>;
  readonly id: string;
  /** With the id it lets another process act for the session: SESSION.ATTACH. */
  readonly secret: string;
  lock(names: string | string[], options?: LockOptions): Lock;
  watch(prefix?: string): Watch;
  /** The answer to any command of docs/protocol.md that may be repeated. */
  ask(...words: (string | number)[]): Promise<any>;
  /** Reports progress, where 'alive' was asked for. */
  alive(): void;
  /** What may be believed; asks nobody. */
  state(): 'held' | 'jeopardy' | 'lost';
  /** For which its holds may be trusted; Infinity of a durable session. */
  remaining(): number;
  /** Gives back all that it holds. */
  close(): Promise<void>;
  /** 'lost' is told once for each hold, by its token; 'notice' of what people
   * should know, such as certificates that are not taken. */
  on(event: 'jeopardy' | 'safe' | 'lost' | 'please' | 'notice',
    listener: (event: HaspEvent) => void): this;
  /** Where the engine has Symbol.asyncDispose. */
  [Symbol.asyncDispose](): Promise<void>;
}

/** A lock from its grant to its release: what run() hands to the work, and what
 * enter() resolves with. After a loss the token is that of the lost hold, which
 * what the lock protects then refuses, and the signal is aborted. */
export type Held<L extends Lock = Lock> = L & {
  readonly token: number;
  readonly signal: AbortSignal;
};

export class Lock {
  constructor(session: Session, names: string | string[],
    options?: LockOptions);
  readonly name: string;
  readonly names: string[];
  /** The fencing token while it is held; of several the first one's. */
  readonly token: number | null;
  readonly tokens: { readonly [name: string]: number };
  /** As which it is held; convert() changes it. */
  readonly shared: boolean;
  /** Of the newest hold: aborted when it cannot be trusted any more. */
  readonly signal: AbortSignal | null;
  /** False: it is not held, and nobody waits. What was granted when it is
   * aborted is given back. */
  acquire(how?: How): Promise<boolean>;
  /** Has acquire() elsewhere resolve with false; was there one? */
  cancel(): boolean;
  /** As acquire(); rejects with TIMEDOUT. */
  enter(how?: How): Promise<Held<this>>;
  run<T>(work: (lock: Held<this>) => T | Promise<T>, how?: How): Promise<T>;
  /** Gives back the newest hold, by its token. NOTHELD: the cluster had ended it;
   * if that is known, nothing is asked. Other holds of the owner stay. */
  release(): Promise<void>;
  /** To exclusive with a new token; false: still shared. */
  convert(how: { shared: boolean; wait?: number; signal?: AbortSignal }):
    Promise<boolean>;
  /** In the queue, from 1 on; null: in none. */
  place(): Promise<number | null>;
  /** Leaves up to 4096 bytes at the lock. NOTHELD: only a holder may. */
  note(text: string): Promise<void>;
  /** Can it be trusted now? Asks nobody. */
  locked(): boolean;
  remaining(): number;
  /** Throws LOST, or SHORT, unless a step of so long ends in time. */
  guard(needMs?: number): void;
  /** Where the engine has Symbol.asyncDispose. */
  [Symbol.asyncDispose](): Promise<void>;
}

export class Election extends Lock {
  leader(): Promise<Leader | null>;
  observe(): AsyncGenerator<Leader | null, void, void>;
}

export class Semaphore {
  constructor(session: Session, name: string, slots: number,
    options?: LockOptions);
  slot(): Lock;
}

export class ReadWriteLock {
  constructor(session: Session, name: string, options?: LockOptions);
  read(): Lock;
  write(): Lock;
}

export class Watch implements AsyncIterableIterator<Change> {
  private constructor();
  next(): Promise<IteratorResult<Change, undefined>>;
  return(): Promise<IteratorResult<Change, undefined>>;
  close(): void;
  [Symbol.asyncIterator](): this;
}
