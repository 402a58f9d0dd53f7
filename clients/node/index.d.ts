// SPDX-License-Identifier: MIT
// All times are in milliseconds.
import { EventEmitter } from 'node:events';

declare global {
  // Newer TypeScript libraries declare this too; older ones do not.
  interface SymbolConstructor {
    readonly asyncDispose: unique symbol;
  }
}

export type Code = 'UNREACHABLE' | 'UNKNOWN' | 'LOST' | 'SHORT' | 'NOTHELD' |
  'TIMEDOUT' | 'SEAL' | 'LIMIT' | 'DEADLOCK' | 'BLACKLISTED' | 'BADARG' | 'FOREIGN' |
  (string & {});

export class HaspError extends Error {
  readonly code: Code;
}

export interface SessionOptions {
  /** "host:port,..." or a list; "unix:/path" is a node's listen.local on this
   * machine, never encrypted. Default: HASP_ENDPOINTS, or loopback if unset. */
  endpoints?: string | string[];
  /** Shown to people; default: program:pid. */
  name?: string;
  /** Time from the last heartbeat until the session's locks pass on; default
   * 10000, or 60000 with a tie. */
  ttl?: number;
  /** The same, from the loss of the last connection; default 0: ttl counts. */
  linger?: number;
  /** Limit of one request, without the wait for a lock; default 10000. */
  timeout?: number;
  /** Interval in which alive() must be called; otherwise the lease is not
   * renewed. */
  alive?: number;
  /** A folder with ca.crt, and client.crt with client.key ('hasp cert user'
   * creates it), or options of tls.connect(). Default: HASP_TLS, or plain. */
  tls?: string | object;
  /** A file with the secret of a user ("hasp secret add" writes it, 0600).
   * Default: HASP_SECRET_FILE, or the user of the certificate, or anyone. */
  secretFile?: string;
  /** The session never expires, so ttl and linger mean nothing. Its holds
   * outlive the program until somebody releases or breaks them. */
  durable?: boolean;
  /** Reason of a durable session, shown to people who wait for its locks; at
   * most 128 bytes. */
  reason?: string;
  /** A connection that is not shared with the other sessions of the process. */
  ownConnection?: boolean;
  /** The agent of this host (hasp agent, docs/agent.md) ends the session as soon
   * as this process is dead. Dead is not silent: what the process has sent can
   * still arrive, so check the token where you write, or use the option 'delay'
   * of a lock. 'try': if there is an agent, otherwise a 'notice'; 'must':
   * open() fails without. Not with linger or durable. Default: 'none'. */
  tie?: 'none' | 'try' | 'must';
  /** The agent's socket; default: HASP_AGENT, or
   * /run/hasp-agent/agent.sock. */
  agent?: string;
  /** Called for each acquisition: for traces and metrics. */
  hooks?: Hooks;
}

/** 'id' numbers the acquisitions of a session. 'name' and 'token' are those of
 * the lock, or of the first one of several; 'token' is 0 until it is granted. */
export interface HookEvent {
  readonly kind: 'acquire' | 'wait' | 'granted' | 'failed' | 'released' | 'lost';
  readonly id: number;
  readonly name: string;
  readonly token: number;
  /** The option of the lock. */
  readonly trace: string;
  /** Date.now(), for people. */
  readonly at: number;
  /** Since 'acquire'; of 'released' and 'lost', since 'granted'. Monotonic. */
  readonly elapsed: number;
  /** Of 'failed' and 'lost': why. */
  readonly text: string;
}

/** 'acquire' comes first, then 'wait' if others have the lock, then 'granted'
 * or 'failed'; a hold ends by 'released' or 'lost'. Hooks are called
 * between steps of the client. The first error of a session, thrown or a
 * rejection, is reported by 'notice'. */
export interface Hooks {
  acquire?(event: HookEvent): unknown;
  wait?(event: HookEvent): unknown;
  granted?(event: HookEvent): unknown;
  failed?(event: HookEvent): unknown;
  released?(event: HookEvent): unknown;
  lost?(event: HookEvent): unknown;
}

export interface LockOptions {
  /** The same owner can acquire again, and must release as often. */
  owner?: string;
  shared?: boolean;
  /** Number of concurrent holders; all users must give the same number. */
  slots?: number;
  /** Shown to people. */
  value?: string;
  /** A W3C traceparent, shown with the hold or the wait. */
  trace?: string;
  /** How long the lock stays closed after its holder died. */
  delay?: number;
  /** Maximum duration of a hold. A repeated acquire() of the same owner keeps
   * the limit of the existing hold. */
  hold?: number;
  /** Skips the queue; holders are not affected. */
  barge?: boolean;
  /** Default wait of acquire(). */
  timeout?: number;
  /** Called with each name and its token before the lock is reported as
   * acquired, to close the resource to earlier holders. If it throws, rejects,
   * or takes longer than sealTime, the lock is given back, and acquire() rejects
   * with SEAL; 'signal' is aborted then, and when the hold is lost. Not called
   * when the owner acquires the lock again, nor by convert(). */
  onGrant?: (name: string, token: number, how: { signal: AbortSignal }) =>
    unknown;
  /** Limit of onGrant; default: as long as the lease can be trusted. */
  sealTime?: number;
}

/** A number is the wait: Infinity (the default): no limit, 0: only tries. */
export type How = number | { wait?: number; signal?: AbortSignal };

/** 'name' and 'token' identify the hold; '' and 0: the session with all its
 * holds. 'text' is the message or the reason. */
export interface HaspEvent {
  readonly name: string;
  readonly token: number;
  readonly text: string;
}

export interface Change {
  /** 'gap': changes might have been missed before this one. */
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
  /** With this and the id another process can act for the session:
   * SESSION.ATTACH. Throws while the session is, or can be, tied. */
  readonly secret: string;
  /** True while the session is tied to this process: the option 'tie'. */
  isTied(): boolean;
  /** Ends the tie for good, so that another process can take over the session.
   * UNREACHABLE: the agent has not confirmed it. */
  untie(): Promise<void>;
  lock(names: string | string[], options?: LockOptions): Lock;
  watch(prefix?: string): Watch;
  /** Sends any repeatable command of docs/protocol.md; returns its answer. */
  ask(...words: (string | number)[]): Promise<any>;
  /** Reports progress, if the option 'alive' is set. */
  alive(): void;
  /** The state of the lease. Sends no request. */
  state(): 'held' | 'jeopardy' | 'lost';
  /** Time for which its holds can be trusted; Infinity for a durable session.
   * Sends no request. */
  remaining(): number;
  /** Ends the session; its locks go to the next in line. */
  close(): Promise<void>;
  /** 'lost' is emitted once for each hold, with its token; 'notice' for what
   * people should know, such as certificates that cannot be used. */
  on(event: 'jeopardy' | 'safe' | 'lost' | 'please' | 'notice',
    listener: (event: HaspEvent) => void): this;
  /** Where the engine has Symbol.asyncDispose. */
  [Symbol.asyncDispose](): Promise<void>;
}

/** A lock from its grant to its release: run() passes it to the work, and
 * enter() resolves with it. After a loss the token is still that of the lost
 * hold, which the protected resource refuses, and the signal is aborted. */
export type Held<L extends Lock = Lock> = L & {
  readonly token: number;
  readonly signal: AbortSignal;
};

export class Lock {
  constructor(session: Session, names: string | string[],
    options?: LockOptions);
  readonly name: string;
  readonly names: string[];
  /** The fencing token while it is held; for several locks, the first one. */
  readonly token: number | null;
  readonly tokens: { readonly [name: string]: number };
  /** True if it is held in shared mode; convert() changes the mode. */
  readonly shared: boolean;
  /** Aborted when the newest hold can no longer be trusted. */
  readonly signal: AbortSignal | null;
  /** Waits in line. False: not granted, and the place in the queue is given up.
   * If it is aborted, a grant that arrives meanwhile is released. */
  acquire(how?: How): Promise<boolean>;
  /** Makes waiting acquire() calls resolve with false. True if there was one. */
  cancel(): boolean;
  /** Like acquire(), but rejects with TIMEDOUT if it was not granted. */
  enter(how?: How): Promise<Held<this>>;
  run<T>(work: (lock: Held<this>) => T | Promise<T>, how?: How): Promise<T>;
  /** Releases the newest hold, by its token. NOTHELD: the cluster had already
   * ended it. Other holds of the owner stay. */
  release(): Promise<void>;
  /** To shared: at once. To exclusive: with a new token; false: still shared. */
  convert(how: { shared: boolean; wait?: number; signal?: AbortSignal }):
    Promise<boolean>;
  /** Place in the queue, from 1 on; null: not in the queue. */
  place(): Promise<number | null>;
  /** Stores up to 4096 bytes with the lock. NOTHELD: the lock is not held. */
  note(text: string): Promise<void>;
  /** True if the hold can be trusted now. Sends no request. */
  locked(): boolean;
  remaining(): number;
  /** Throws LOST or SHORT unless a step of this length ends within the lease.
   * Sends no request. */
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
