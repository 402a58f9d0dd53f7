// SPDX-License-Identifier: MIT
//
// As worker.py.
'use strict';

const { Session } = require(process.argv[2]);

let isOver = false;
process.stdin.resume().on('end', () => {
  isOver = true;
});

const rest = () => new Promise((resolve) => setTimeout(resolve, 5));

async function work(number) {
  const session = await Session.open({ ttl: 10000 });
  for (const kind of ['jeopardy', 'safe', 'lost', 'notice']) {
    session.on(kind, ({ text }) => console.log('EVENT', kind, text));
  }
  const lock = session.lock(`app/node-${number}`);
  await session.lock(`app/node-kept-${number}`).run(async () => {
    for (let cycle = 0; !isOver; cycle++) {
      await lock.run(rest);
      if (cycle % 20 === 0) {
        console.log('CYCLE', number, session.id);
      }
    }
  });
  await session.close();
}

Promise.all([work(0), work(1)]).then(() => console.log('END'), (error) => {
  console.log('ERROR', error);
  process.exit(1);
});
