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

// Control characters, signs that change the direction of text, separators, lone surrogates.
const HIDDEN =
  /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]|[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/g;

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

const percent = (share) => (share === null || share === undefined ? "–" : (100 * share).toFixed(share === 0 || share === 1 ? 0 : 1));
const decimals = (value) => (Number.isFinite(value) ? value.toFixed(2).replace(/^0\./, ".") : "–");
const still = () => matchMedia("(prefers-reduced-motion: reduce)").matches;
