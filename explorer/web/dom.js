// Elements, from their names, attributes and children. Texts are never markup.

const SVG = 'http://www.w3.org/2000/svg';

/**
 * @typedef {Record<string, string | number | boolean | null | undefined | ((event: any) => void)>} Attributes
 * @typedef {Node | string | number | null | false | undefined} Child
 */

/** @template {Element} T @param {T} element @param {Attributes} attributes @param {Child[]} children @returns {T} */
function filled(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === 'function') element.addEventListener(name, value);
    else if (value === true) element.setAttribute(name, '');
    else if (value !== false && value !== null && value !== undefined) element.setAttribute(name, String(value));
  }
  for (const child of children) {
    if (child !== null && child !== undefined && child !== false) element.append(child instanceof Node ? child : String(child));
  }
  return element;
}

/**
 * @template {keyof HTMLElementTagNameMap} K
 * @param {K} name @param {Attributes} [attributes] @param {Child[]} children @returns {HTMLElementTagNameMap[K]}
 */
export const h = (name, attributes = {}, ...children) => filled(document.createElement(name), attributes, children);

/**
 * @template {keyof SVGElementTagNameMap} K
 * @param {K} name @param {Attributes} [attributes] @param {Child[]} children @returns {SVGElementTagNameMap[K]}
 */
export const s = (name, attributes = {}, ...children) =>
  filled(/** @type {SVGElementTagNameMap[K]} */ (document.createElementNS(SVG, name)), attributes, children);

/** @template {HTMLElement} [T=HTMLElement] @param {string} id @returns {T} */
export const byId = (id) => /** @type {T} */ (document.getElementById(id));
