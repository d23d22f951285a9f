// Charts as SVG: themed by the style sheet, focusable, read point by point with the arrow keys.

import { h, s } from './dom.js';
import { grouped } from './words.js';

/**
 * @typedef {{at: number, text: string}} Tick
 * @typedef {{
 *   title: string, description: string, width: number, height?: number,
 *   x: {place: (value: number) => number, ticks: Tick[], name: string},
 *   y: {place: (value: number) => number, ticks: Tick[], name: string},
 *   points: {at: number, told: string}[],
 *   draw: (scale: Scale) => Element[],
 *   legend: {name: string, mark: string}[],
 * }} Chart  `place` maps a value to 0 to 1
 * @typedef {{x: (value: number) => number, y: (value: number) => number, bottom: number}} Scale
 */

const [TOP, BOTTOM, RIGHT] = [10, 34, 12];
/** About as wide as a digit of a label is. */
const DIGIT = 6.6;

let number = 0;

/** @param {Chart} chart @returns {HTMLElement} */
export function chart({ title, description, width, height = 200, x, y, points, draw, legend }) {
  const id = `chart-${(number += 1)}`;
  const left = 14 + DIGIT * Math.max(3, ...y.ticks.map((tick) => tick.text.length));
  const bottom = height - BOTTOM;
  const scale = {
    x: (/** @type {number} */ value) => left + x.place(value) * (width - left - RIGHT),
    y: (/** @type {number} */ value) => bottom - y.place(value) * (bottom - TOP),
    bottom,
  };
  const grid = y.ticks.flatMap(({ at, text }) => [
    s('line', { class: 'grid', x1: left, x2: width - RIGHT, y1: scale.y(at), y2: scale.y(at) }),
    s('text', { class: 'label', x: left - 6, y: scale.y(at) + 4, 'text-anchor': 'end' }, text),
  ]);
  let free = 0;
  const times = x.ticks.flatMap(({ at, text }) => {
    const [place, half] = [scale.x(at), (text.length * DIGIT) / 2];
    const middle = Math.min(Math.max(place, half), width - half);
    if (middle - half < free) return [];
    free = middle + half + 8;
    return [
      s('line', { class: 'tick', x1: place, x2: place, y1: bottom, y2: bottom + 4 }),
      s('text', { class: 'label', x: middle, y: bottom + 17, 'text-anchor': 'middle' }, text),
    ];
  });
  const cursor = s('line', { class: 'cursor', y1: TOP, y2: bottom, visibility: 'hidden' });
  const told = h('p', { class: 'told', 'aria-live': 'polite' });
  const svg = s('svg', {
    viewBox: `0 0 ${width} ${height}`, width, height, role: 'img', tabindex: 0, class: 'chart',
    'aria-labelledby': `${id}-title`, 'aria-describedby': `${id}-description`,
  },
    s('title', { id: `${id}-title` }, title),
    s('desc', { id: `${id}-description` }, description),
    ...grid, ...draw(scale),
    s('line', { class: 'axis', x1: left, x2: width - RIGHT, y1: bottom, y2: bottom }),
    ...times,
    s('text', { class: 'label name', x: width - RIGHT, y: height - 3, 'text-anchor': 'end' }, x.name),
    cursor);
  let at = -1;
  /** @param {number} to */
  const show = (to) => {
    if (!points.length) return;
    at = Math.min(Math.max(to, 0), points.length - 1);
    const place = scale.x(points[at].at);
    cursor.setAttribute('x1', String(place));
    cursor.setAttribute('x2', String(place));
    cursor.setAttribute('visibility', 'visible');
    told.textContent = points[at].told;
  };
  svg.addEventListener('keydown', (event) => {
    const to = { ArrowRight: at + 1, ArrowLeft: at - 1, PageDown: at + 10, PageUp: at - 10, Home: 0, End: points.length }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    show(to);
  });
  svg.addEventListener('pointermove', (event) => {
    const place = ((event.clientX - svg.getBoundingClientRect().left) / svg.getBoundingClientRect().width) * width;
    let nearest = 0;
    points.forEach((point, i) => {
      if (Math.abs(scale.x(point.at) - place) < Math.abs(scale.x(points[nearest].at) - place)) nearest = i;
    });
    show(nearest);
  });
  return h('figure', { class: 'figure' },
    h('figcaption', {}, h('span', {}, title),
      h('span', { class: 'legend' }, ...legend.map(({ name, mark }) => h('span', {}, h('i', { class: `mark ${mark}` }), name))),
      h('span', { class: 'unit' }, y.name)),
    svg, told);
}

/** @param {number} most @param {number} [count] @returns {number[]} round numbers from 0 to at least `most` */
export function rounds(most, count = 4) {
  const rough = Math.max(most, 1) / count;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = Math.max(1, ([1, 2, 5, 10].find((step) => step * power >= rough) ?? 10) * power);
  return Array.from({ length: Math.ceil(most / step) + 1 }, (_, i) => i * step);
}

/** @param {number} most @param {string} name an axis of whole numbers from 0 */
export function linear(most, name) {
  const all = rounds(most);
  const end = all[all.length - 1] || 1;
  return { name, place: (/** @type {number} */ value) => value / end, ticks: all.map((at) => ({ at, text: short(at) })) };
}

/** @param {number} from @param {number} to @param {string} name @param {Tick[]} ticks a logarithmic axis */
export function logarithmic(from, to, name, ticks) {
  const [first, last] = [Math.log(Math.max(from, 1)), Math.log(Math.max(to, from + 1, 2))];
  return {
    name,
    place: (/** @type {number} */ value) => (Math.log(Math.max(value, 1)) - first) / (last - first),
    ticks: ticks.filter(({ at }) => at >= from && at <= to),
  };
}

/** @param {number} number @returns {string} such as 12k */
export function short(number) {
  if (number >= 1e9) return number.toExponential(0).replace('e+', 'e');
  if (number >= 1e6) return `${Number((number / 1e6).toFixed(1))}M`;
  if (number >= 1e4) return `${Number((number / 1e3).toFixed(1))}k`;
  return grouped(number);
}
