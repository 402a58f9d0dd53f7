// SPDX-License-Identifier: MIT

import { SessionOptions } from './index';

export interface RunCoordinatorOptions extends SessionOptions {
  /** Longer than the clocks of the processes differ, ms; default: 60000. */
  window?: number;
}

/** For node-cron's option 'runCoordinator', or its setRunCoordinator(). */
export class RunCoordinator {
  constructor(options?: RunCoordinatorOptions);
  shouldRun(key: string, ttlMs: number): Promise<boolean>;
  /** Closes the connection, so that the process can end. */
  close(): Promise<void>;
}
