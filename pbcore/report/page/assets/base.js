// Small helpers. All foreign text goes through `plain`, which makes text nodes: nothing of a run is ever read as HTML.

const byId = (id) => document.getElementById(id);

/** An element with attributes (`on…`: listeners, `class`, …) and children (texts or nodes). */
function el(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.filter((child) => child !== null && child !== undefined));
  return node;
}

// Control characters, signs that change the direction of text, separators, lone surrogates. A joiner within an emoji stays.
const HIDDEN =
  /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200b\u200c\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff]|(?<!\p{Extended_Pictographic}[\ufe0f\u{1f3fb}-\u{1f3ff}]?)\u200d|\u200d(?!\p{Extended_Pictographic})|[\ud800-\udfff]/gu;

/** Foreign text as nodes: hidden signs are shown by their code. */
function plain(text) {
  const parts = document.createDocumentFragment();
  let from = 0;
  for (const match of text.matchAll(HIDDEN)) {
    parts.append(text.slice(from, match.index));
    const code = match[0].charCodeAt(0).toString(16).toUpperCase().padStart(4, "0");
    parts.append(el("span", { class: "sign", title: "a sign that can't be seen" }, "U+" + code));
    from = match.index + match[0].length;
  }
  parts.append(text.slice(from));
  return parts;
}

/** Foreign text on one line, shortened. */
function short(text, length) {
  const line = text.replace(/\s+/g, " ").trim();
  return plain(line.length > length ? line.slice(0, length) + " …" : line);
}

const formats = [];

/** A number with so many decimals, thousands apart; halves go up, as in pbcore.printable.fixed. */
function fixed(value, places) {
  formats[places] ??= new Intl.NumberFormat("en", { minimumFractionDigits: places, maximumFractionDigits: places });
  return formats[places].format(value >= 0 ? value + 1e-9 : value - 1e-9);
}
const percent = (share) => (share === null || share === undefined ? "–" : fixed(100 * share, share === 0 || share === 1 ? 0 : 1));
const decimals = (value) => (Number.isFinite(value) ? fixed(value, 2).replace(/^0\./, ".") : "–");
const still = () => matchMedia("(prefers-reduced-motion: reduce)").matches;

const moving = []; // each sees that one of its items can be reached by Tab

/** One tab stop for all items within `box`; arrow keys, Home and End move among those that are shown. */
function roving(box, selector) {
  const isShown = (item) => item.isConnected && item.getClientRects().length > 0;
  const items = () => [...box.querySelectorAll(selector)].filter(isShown);
  let current = null;
  const only = (chosen) => {
    if (chosen === current) return;
    current?.setAttribute("tabindex", -1);
    chosen?.setAttribute("tabindex", 0);
    current = chosen;
  };
  for (const item of box.querySelectorAll(selector)) item.setAttribute("tabindex", -1);
  box.addEventListener("focusin", (event) => { const item = event.target.closest(selector); if (item !== null) only(item); });
  box.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1, Home: -Infinity, End: Infinity }[event.key];
    const now = document.activeElement.closest(selector);
    if (step === undefined || now === null || event.altKey || event.ctrlKey || event.metaKey) return;
    const all = items();
    const cell = now.closest("td, th");
    const column = event.key.endsWith("Up") || event.key.endsWith("Down") ? all.filter((item) => cell !== null && item.closest("td, th").cellIndex === cell.cellIndex) : all;
    const line = column.length > 1 ? column : all;
    line[Math.max(0, Math.min(line.length - 1, line.indexOf(now) + step))].focus();
    event.preventDefault();
  });
  const refresh = () => {
    if (!box.isConnected || (current !== null && isShown(current))) return;
    const all = box.querySelectorAll(selector);
    let first = all[0] ?? null;
    for (const item of all) {
      if (isShown(item)) {
        first = item;
        break;
      }
    }
    only(first);
  };
  moving.push(refresh);
  refresh();
}
