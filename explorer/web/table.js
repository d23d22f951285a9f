// Tables: of numbers, and behind each chart.

import { h } from './dom.js';
import { grouped } from './words.js';

/**
 * @param {string} caption @param {string[]} header @param {(string | number)[][]} rows
 * @param {{texts?: number}} [how] so many columns at the left hold text, the others numbers
 */
export function table(caption, header, rows, { texts = 1 } = {}) {
  /** @param {number} column */
  const kind = (column) => (column < texts ? null : 'number');
  /** @param {string | number} cell */
  const text = (cell) => (typeof cell === 'number' ? grouped(cell) : cell);
  return h('div', { class: 'wide', role: 'group', tabindex: 0, 'aria-label': caption },
    h('table', {},
      h('caption', {}, caption),
      h('thead', {}, h('tr', {}, ...header.map((name, i) => h('th', { scope: 'col', class: kind(i) }, name)))),
      h('tbody', {}, ...rows.map((row) => h('tr', {}, ...row.map((cell, i) =>
        (i === 0 ? h('th', { scope: 'row' }, text(cell)) : h('td', { class: kind(i) }, text(cell)))))))));
}

/** @param {string} what @param {() => HTMLElement} table made when it is opened, since it may be long */
export function behind(what, table) {
  const details = h('details', { class: 'behind' }, h('summary', {}, `Table: ${what}`));
  details.addEventListener('toggle', () => {
    if (details.open && details.childElementCount === 1) details.append(table());
  });
  return details;
}
