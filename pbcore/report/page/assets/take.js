// Taking things away: tables as CSV, Markdown and LaTeX, plots as SVG and PNG. Nothing leaves the machine.

function saved(name, data) {
  const link = el("a", { href: typeof data === "string" ? data : URL.createObjectURL(data), download: name.replace(/[^\w.+-]+/g, "_").slice(0, 80) });
  link.click();
}

/** Buttons in a fold; `ways`: [label, action]. */
function take(ways) {
  const told = el("output");
  const buttons = ways.map(([label, action]) => el("button", { type: "button", onclick: async () => { told.textContent = (await action()) || ""; } }, label));
  return el("details", { class: "take" }, el("summary", {}, "take away"), ...buttons, told);
}

async function copied(text) {
  try {
    await navigator.clipboard.writeText(text);
    return "copied";
  } catch {
    const area = el("textarea", { readonly: true, "aria-label": "text to copy" }, text);
    document.body.append(area);
    area.select();
    const done = document.execCommand("copy"); // where a page has no clipboard, as files in some browsers
    area.remove();
    return done ? "copied" : "the browser does not let this page copy";
  }
}

/** Heads and rows of a table as texts, of what is shown. */
function grid(table) {
  const shown = (cell) => !cell.hidden && cell.getClientRects().length > 0;
  const text = (cell) => cell.innerText.replace(/\s+/g, " ").trim();
  return [table.tHead.rows[0], ...table.tBodies[0].rows].filter((row) => !row.hidden).map((row) => [...row.cells].filter(shown).map(text));
}

// A text that a spreadsheet would calculate gets a quote before it.
const csvCell = (text) => `"${(/^[=+\-@\t]/.test(text) && !/^[-+]?[\d.,]+$/.test(text) ? "'" : "") + text.replaceAll('"', '""')}"`;
const csv = (rows) => rows.map((row) => row.map(csvCell).join(",")).join("\r\n") + "\r\n";
const mdCell = (text) => text.replace(/[\\`|<*_]/g, "\\$&");
const markdown = ([head, ...rows]) => [head, head.map(() => "---"), ...rows].map((row, i) => `| ${row.map(i === 1 ? String : mdCell).join(" | ")} |`).join("\n") + "\n";
const TEX = { "\\": "\\textbackslash{}", "~": "\\textasciitilde{}", "^": "\\textasciicircum{}", "–": "--", "−": "$-$", "·": "$\\cdot$" };
const texCell = (text) => text.replace(/[\\~^–−·]/g, (sign) => TEX[sign]).replace(/(?<!\\)[&%$#_](?![-\\])/g, (sign) => (sign === "$" ? "\\$" : `\\${sign}`));
const latex = ([head, ...rows]) => `\\begin{tabular}{${"l".repeat(head.length)}}\n${[head, ...rows].map((row) => row.map(texCell).join(" & ") + " \\\\").join("\n")}\n\\end{tabular}\n`;

function takeTable(table) {
  const name = table.caption.textContent || "table";
  return take([
    ["CSV", () => saved(`${name.slice(0, 60)}.csv`, new Blob([csv(grid(table))], { type: "text/csv" }))],
    ["copy Markdown", () => copied(markdown(grid(table)))],
    ["copy LaTeX", () => copied(latex(grid(table)))],
  ]);
}

function withAttributes(node, attributes) {
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  return node;
}

const svgNode = (tag, attributes) => withAttributes(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes);

/** The plot alone, with its colours and fonts written into it. */
function drawing(figure, svg) {
  const copy = svg.cloneNode(true);
  const nodes = [...svg.querySelectorAll("*")];
  const hidden = [];
  copy.querySelectorAll("*").forEach((node, i) => {
    const style = getComputedStyle(nodes[i]);
    if (style.display === "none" || style.visibility === "hidden") hidden.push(node);
    for (const name of ["fill", "stroke", "stroke-width", "stroke-dasharray", "opacity", "font-size", "text-anchor"]) node.setAttribute(name, style.getPropertyValue(name));
    for (const name of ["class", "tabindex", "role"]) node.removeAttribute(name);
    for (const name of Object.keys(node.dataset)) delete node.dataset[name];
  });
  hidden.forEach((node) => node.remove());
  const keys = [...figure.querySelectorAll("li[data-line]")].filter((key) => key.getClientRects().length && key.querySelector("button")?.getAttribute("aria-pressed") !== "false");
  const [width, height] = [Number(figure.dataset.width), 300];
  const base = getComputedStyle(document.body);
  keys.forEach((key, i) => {
    const sign = key.querySelector("svg");
    const part = svgNode("g", { transform: `translate(60 ${height + 12 + 18 * i})` });
    for (const path of sign.querySelectorAll("path")) {
      const line = path.cloneNode();
      const style = getComputedStyle(path);
      for (const name of ["fill", "stroke", "stroke-width"]) line.setAttribute(name, style.getPropertyValue(name));
      line.removeAttribute("class");
      part.append(line);
    }
    const text = svgNode("text", { x: 20, y: 4, fill: base.color, "font-size": "12px" });
    text.textContent = key.textContent.trim();
    part.append(text);
    copy.append(part);
  });
  const full = height + 18 * keys.length + 8;
  withAttributes(copy, { xmlns: copy.namespaceURI, width, height: full, viewBox: `0 0 ${width} ${full}`, "font-family": "system-ui, sans-serif" });
  copy.prepend(svgNode("rect", { width, height: full, fill: base.backgroundColor }));
  return { text: new XMLSerializer().serializeToString(copy), width, height: full };
}

async function picture(figure, svg) {
  const { text, width, height } = drawing(figure, svg);
  const image = new Image();
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(text)}`;
  await image.decode();
  const canvas = el("canvas", { width: 2 * width, height: 2 * height });
  canvas.getContext("2d").drawImage(image, 0, 0, 2 * width, 2 * height);
  return canvas.toDataURL("image/png");
}

function takePlot(figure, svg) {
  const name = figure.dataset.title;
  return take([
    ["SVG", () => saved(`${name}.svg`, new Blob([drawing(figure, svg).text], { type: "image/svg+xml" }))],
    ["PNG", async () => saved(`${name}.png`, await picture(figure, svg))],
  ]);
}
