// Numbers, times and spans in words.

const NUMBER = new Intl.NumberFormat('en');

/** @param {number} number */
export const grouped = (number) => NUMBER.format(number);

/** @param {number} part @param {number} whole @returns {string} 0% and 100% only if exact */
export function percent(part, whole) {
  if (!whole) return '0%';
  const share = (part * 100) / whole;
  if (part > 0 && share < 0.1) return '<0.1%';
  if (part < whole && share > 99.9) return '>99.9%';
  return `${share.toFixed(share < 10 && share > 0 ? 1 : 0)}%`;
}

/** @param {number} count @param {string} thing */
export const counted = (count, thing) => `${grouped(count)} ${thing}${count === 1 ? '' : 's'}`;

/** @type {[number, string][]} */
const UNITS = [[86_400e6, 'd'], [3_600e6, 'h'], [60e6, 'min'], [1e6, 's'], [1e3, 'ms'], [1, 'µs']];

/** @param {number} micros @returns {string} a span, in the largest unit in which it is short */
export function span(micros) {
  const [unit, name] = UNITS.find(([unit]) => micros >= unit) ?? [1, 'µs'];
  return `${Number((micros / unit).toFixed(micros % unit ? 2 : 0))} ${name}`;
}

/** @param {string} rfc3339 @returns {number} microseconds since 1970 */
export const micros = (rfc3339) => {
  const [, whole, fraction = ''] = /^(.*?)(?:\.(\d+))?Z$/.exec(rfc3339) ?? [];
  return Date.parse(`${whole}Z`) * 1000 + Number(fraction.padEnd(6, '0').slice(0, 6));
};

/** @param {number} time microseconds since 1970 @param {number} step how fine it is told @returns {string} in UTC */
export function clock(time, step) {
  const text = new Date(Math.floor(time / 1000)).toISOString();
  const [date, hours] = [text.slice(5, 10), text.slice(11, 19)];
  if (step >= 86_400e6) return text.slice(0, 10);
  if (step >= 60e6) return `${date} ${hours.slice(0, 5)}`;
  if (step >= 1e6) return hours;
  return `${hours}.${String(time % 1e6).padStart(6, '0').slice(0, step >= 1e3 ? 3 : 6)}`;
}
