// What a program in TypeScript may do with the package, and what it may not.

import { Limiter, LimitError } from 'lockage';
import type { Decision } from 'lockage';
import { Machines } from 'lockage/machines';

const limiter: Limiter = await Limiter.create('token-bucket 100/s burst 20', { clock: () => Date.now() });
const decision: Decision = limiter.tryAcquire('user:1');
const wait: number | null = decision.retryAfterMs;
// @ts-expect-error: a request that is never admitted has no time
const always: number = decision.retryAfterMs;
// @ts-expect-error: a key is a string
limiter.peek(1);
// @ts-expect-error: it is made by `create`
limiter.column;
const column = (error: LimitError): number => error.column;

const machines = await Machines.create();
const { states } = machines.run({ script: 'latch_inspect', keys: ['k'], arguments: ['', '0'] }, [null], 0);
const forgetAtUs: number | undefined = states[0]?.forgetAtUs;
export { wait, always, column, forgetAtUs };
