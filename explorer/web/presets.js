// Seven questions, each with its answer to find.

import { state, traffic } from './state.js';

/** @typedef {{id: string, name: string, question: string, answer: string, state: import('./state.js').State}} Preset */

/** @param {string} id @param {string} name @param {string} question @param {string} answer @param {Partial<import('./state.js').State>} parts @returns {Preset} */
const preset = (id, name, question, answer, parts) => ({ id, name, question, answer, state: state({ ...parts, preset: id }) });

export const PRESETS = [
  preset('boundary', 'The double burst',
    'Sixty a minute: how many can get in within two microseconds, at the boundary of a window?',
    'The fixed window admits 119: its last 59 and the first 60 of the next one. The log admits 60 in any minute.',
    {
      limits: ['fixed-window 60/min', 'sliding-log 60/min', 'token-bucket 60/min burst 60'],
      traffic: [traffic('boundary-attack fixed-window 60/min', { duration: '10min' })],
    }),
  preset('herd', 'A retry herd',
    'Two hundred workers wake at once and obey retry_after to the microsecond. How many calls hit the store within 10 ms?',
    '200, and the 150 that were denied come back at once. The token bucket is asked 30,040 times for 800 requests, since each token wakes all that wait; the leaky bucket, a queue of turns, 800 times. Switch jitter on and see the repeats spread out.',
    {
      limits: ['fixed-window 50/s', 'token-bucket 50/s burst 50', 'leaky-bucket 50/s queue 200'],
      traffic: [traffic('burst 200 every 30s', { duration: '2min' })],
      callers: { wait: '10s', 'round-trip': '1ms', processes: '200', jitter: false },
    }),
  preset('scraper', 'A scraper among users',
    'A scraper asks ten times a second, a hundred users now and then. Which limit denies the scraper and no user?',
    'Ten a minute denies users too, 60 a minute and the bucket the scraper alone: 5,400 and 5,371 of its 6,000 requests. See what remains: the window lets it in at once and then keeps it out, the bucket evenly.',
    {
      limits: ['fixed-window 10/min', 'fixed-window 60/min', 'token-bucket 1/s burst 30'],
      traffic: [
        traffic('poisson 10/s', { name: 'user', keys: '100', duration: '10min' }),
        traffic('constant 10/s', { name: 'scraper', duration: '10min' }),
      ],
    }),
  preset('llm', 'An LLM budget',
    'A key may spend 10,000 tokens a minute, and a prompt costs up to 20,000. Which limit can ever admit it, and what is a burst worth?',
    'The window never admits a prompt of 20,000. A bucket with that burst denies 33 of 713 prompts, and with a burst of 60,000 none, at the same rate.',
    {
      limits: ['fixed-window 10000/min', 'token-bucket 10000/min burst 20000', 'token-bucket 10000/min burst 60000'],
      traffic: [traffic('poisson 12/min', { keys: '5', cost: '500:70% 4000:25% 20000:5%', duration: '1h' })],
    }),
  preset('clocks', "Clocks that disagree",
    "Eight servers have clocks that are off by up to two seconds. What does it change who says what time it is?",
    "By the store's clock nothing. By the callers' clocks the window admits 175 requests that it would not have and denies 156 that it would have; with a share for each node it denies 1,146 that were left to others.",
    {
      limits: ['fixed-window 20/10s', 'token-bucket 2/s burst 20'],
      traffic: [traffic('on-off 60/s for 4s, 1/s for 20s', { keys: '20 zipf 0.8', duration: '10min' })],
      clocks: { nodes: '8', skew: '2s', 'drift-ppm': '100' },
    }),
  preset('worst', 'Denied for nothing',
    'Does a sliding window deny somebody who has used nothing of it?',
    'Yes: its counter weighs the last window as if it were even, so all 100 can be denied to one who has used none in the last minute.',
    { view: 'worst', limits: ['sliding-window 100/min'] }),
  preset('change', 'A change in the shadow',
    'A flash crowd is on its way, and a window is to become a bucket of the same rate. Who would notice?',
    'Of 28,629 requests the bucket newly denies 1,676, bursts of more than 40, and newly admits 2,865, which come before the window would end. Only 22 keys notice, key-1 most.',
    {
      view: 'change',
      limits: ['fixed-window 120/min', 'token-bucket 2/s burst 40'],
      traffic: [traffic('flash-crowd 20/s peak 400/s at 3min half-life 30s', { keys: '200 zipf 1.1', cost: '1:95% 10:5%', duration: '10min' })],
    }),
];
