// Taking things away: tables as CSV, Markdown and LaTeX, plots as SVG and PNG. Nothing leaves the machine.

function saved(name, data) {
  const link = el("a", { href: typeof data === "string" ? data : URL.createObjectURL(data), download: name.replace(/[^\w.+-]+/g, "_").slice(0, 80) });
  link.click();
}

/** Buttons in a fold; `ways`: [label, action]. */
function take(ways) {
  const told = el("output");
  const buttons = ways.map(([label, action]) => el("button", { type: "button", onclick: async () => { told.textContent = (await action()) || ""; } }, label));
  return el("details", { class: "take" }, el("summary", {}, "save or copy"), el("span", { class: "ways" }, ...buttons, told));
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

const shownCell = (cell) => !cell.hidden && cell.getClientRects().length > 0;
const headsOf = (table) => [...table.tHead.rows[table.tHead.rows.length - 1].cells];
const rowsOf = (table) => [...table.tBodies[0].rows].filter((row) => !row.hidden && row.getClientRects().length > 0);
const textOf = (cell) => (cell.innerText ?? "").replace(/\s+/g, " ").trim();

/** Heads and rows of a table as texts, of what is shown. */
function grid(table) {
  return [headsOf(table), ...rowsOf(table).map((row) => [...row.cells])].map((cells) => cells.filter(shownCell).map(textOf));
}

/** The same with a column of its own for each number: a score, then the bounds of its interval. */
function numbers(table) {
  const rows = rowsOf(table);
  const heads = headsOf(table);
  const columns = heads.map((head, column) => ({ head: textOf(head), column })).filter(({ column }) => shownCell(heads[column]));
  const parts = columns.flatMap(({ head, column }) => {
    const cells = rows.map((row) => row.cells[column]);
    const value = (cell) => (cell.dataset.v === undefined ? textOf(cell) : cell.dataset.v);
    const bounds = cells.some((cell) => cell.dataset.low) ? ["low", "high"].map((end) => [`${head} ${end}`, ...cells.map((cell) => cell.dataset[end] ?? "")]) : [];
    return [[head, ...cells.map(value)], ...bounds];
  });
  return Array.from({ length: rows.length + 1 }, (_, line) => parts.map((part) => part[line]));
}

// A text that a spreadsheet would calculate gets a quote before it.
const csvCell = (text) => `"${(/^[=+\-@\t]/.test(text) && !/^[-+]?[\d.,]+$/.test(text) ? "'" : "") + text.replaceAll('"', '""')}"`;
const csv = (rows) => rows.map((row) => row.map(csvCell).join(",")).join("\r\n") + "\r\n";
const mdCell = (text) => text.replace(/[\\`|<*_]/g, "\\$&");
const markdown = ([head, ...rows]) => [head, head.map(() => "---"), ...rows].map((row, i) => `| ${row.map(i === 1 ? String : mdCell).join(" | ")} |`).join("\n") + "\n";
const TEX = { "\\": "\\textbackslash{}", "~": "\\textasciitilde{}", "^": "\\textasciicircum{}", "–": "--", "−": "$-$", "·": "$\\cdot$" };
const texCell = (text) => text.replace(/[\\~^–−·]/g, (sign) => TEX[sign]).replace(/(?<!\\)[&%$#_](?![-\\])/g, (sign) => (sign === "$" ? "\\$" : `\\${sign}`));
const latex = ([head, ...rows]) => `\\begin{tabular}{${"l".repeat(head.length)}}\n${[head, ...rows].map((row) => row.map(texCell).join(" & ") + " \\\\").join("\n")}\n\\end{tabular}\n`;

/** The name of a file of this run, such as `run-scores`. */
const fileOf = (name) => `${page.run}-${name}`.replace(/[^\w.]+/g, "-").replace(/^-+|-+$/g, "");

function takeTable(table) {
  return take([
    ["CSV", () => saved(`${fileOf(table.dataset.name ?? "answers")}.csv`, new Blob([csv(numbers(table))], { type: "text/csv" }))],
    ["copy Markdown", () => copied(markdown(grid(table)))],
    ["copy LaTeX", () => copied(latex(grid(table)))],
  ]);
}

/** The plot alone, with its colours and fonts written into it. */
function drawing(figure) {
  const svg = figure.querySelector("svg.plot-area");
  const copy = svg.cloneNode(true);
  const nodes = [...svg.querySelectorAll("*")];
  copy.querySelectorAll("*").forEach((node, i) => {
    const style = getComputedStyle(nodes[i]);
    for (const name of ["fill", "stroke", "stroke-width", "stroke-dasharray", "opacity", "font-size", "font-weight", "text-anchor"]) node.setAttribute(name, style.getPropertyValue(name));
    for (const name of ["class", "tabindex", "role"]) node.removeAttribute(name);
    for (const name of Object.keys(node.dataset)) delete node.dataset[name];
  });
  const keys = [...figure.querySelectorAll("li[data-line]")].filter((key) => key.getClientRects().length && key.querySelector("button")?.getAttribute("aria-pressed") !== "false");
  const { width, height } = svg.viewBox.baseVal;
  const base = getComputedStyle(document.body);
  keys.forEach((key, i) => {
    const part = svgNode("g", { transform: `translate(60 ${height + 12 + 18 * i})` });
    for (const path of key.querySelectorAll("svg > *")) {
      const line = path.cloneNode();
      const style = getComputedStyle(path);
      for (const name of ["fill", "stroke", "stroke-width"]) line.setAttribute(name, style.getPropertyValue(name));
      line.removeAttribute("class");
      part.append(line);
    }
    part.append(svgNode("text", { x: 20, y: 4, fill: base.color, "font-size": "12px" }, key.textContent.trim()));
    copy.append(part);
  });
  const full = height + 18 * keys.length + 8;
  withAttributes(copy, { xmlns: SVG, width, height: full, viewBox: `0 0 ${width} ${full}`, "font-family": "system-ui, sans-serif" });
  copy.prepend(svgNode("rect", { width, height: full, fill: base.backgroundColor }));
  return { text: new XMLSerializer().serializeToString(copy), width, height: full };
}

async function picture(figure) {
  const { text, width, height } = drawing(figure);
  const image = new Image();
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(text)}`;
  await image.decode();
  const canvas = el("canvas", { width: 2 * width, height: 2 * height });
  canvas.getContext("2d").drawImage(image, 0, 0, 2 * width, 2 * height);
  return canvas.toDataURL("image/png");
}

function takePlot(figure) {
  const name = () => fileOf(figure.dataset.title);
  return take([
    ["SVG", () => saved(`${name()}.svg`, new Blob([drawing(figure).text], { type: "image/svg+xml" }))],
    ["PNG", async () => saved(`${name()}.png`, await picture(figure))],
  ]);
}
