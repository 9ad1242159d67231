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
const TEX = { "\\": "\\textbackslash{}", "~": "\\textasciitilde{}", "^": "\\textasciicircum{}", "–": "--", "−": "$-$", "·": "$\\cdot$", "×": "$\\times$", "→": "$\\to$" };
const texCell = (text) => text.replace(/[\\~^–−·×→{}&%$#_]/g, (sign) => TEX[sign] ?? `\\${sign}`);
const texLine = (entries) => `${entries.join(" & ")} \\\\`;
const rounded = (bound) => (Number(bound) + 1e-9).toFixed(0);
const figureOf = (cell) => (cell.dataset.v === undefined ? textOf(cell) : textOf(cell).replace(/ \[.*\]$/, ""));
const numberOfText = (text) => Number(text.replaceAll(",", "").replace("−", "-"));

/** The heads of groups over those of the columns that are shown, as `latex_table` has them. */
function texGroups(table, heads) {
  if (!table.tHead.querySelector("tr.groups")) return [];
  const runs = [];
  for (const head of heads) {
    const title = (head.dataset.task ?? "").split("/")[0].replaceAll("_", " ");
    if (title && runs.at(-1)?.title === title) runs.at(-1).count += 1;
    else runs.push({ title, count: 1 });
  }
  return [texLine(runs.map(({ title, count }) => (title ? `\\multicolumn{${count}}{c}{${texCell(title)}}` : "")))];
}

/** The cells with the best figures of each model, as they are shown. */
function bestCells(table, columns) {
  const best = new Set();
  const models = new Map();
  for (const row of rowsOf(table)) {
    const model = row.dataset.model ?? "";
    models.set(model, [...(models.get(model) ?? []), row]);
  }
  for (const { head, column } of columns.filter(({ head }) => head.dataset.best)) {
    for (const rows of models.values()) {
      const cells = rows.map((row) => row.cells[column]).filter((cell) => cell.dataset.v);
      const figures = cells.map((cell) => numberOfText(figureOf(cell)));
      if (figures.length < 2) continue;
      const top = head.dataset.best === "high" ? Math.max(...figures) : Math.min(...figures);
      cells.filter((cell, i) => figures[i] === top).forEach((cell) => best.add(cell));
    }
  }
  return best;
}

/** The table in LaTeX, as `pbcore export --latex` writes it (pbcore/report/latex.py). */
function latex(table) {
  const all = headsOf(table);
  const columns = all.map((head, column) => ({ head, column })).filter(({ head }) => shownCell(head));
  const best = bestCells(table, columns);
  const entry = (cell) => {
    let text = texCell(figureOf(cell));
    if (cell.querySelector("code")) text = `\\texttt{${text}}`;
    if (best.has(cell)) text = `\\textbf{${text}}`;
    return cell.dataset.low ? `${text} {\\scriptsize[${rounded(cell.dataset.low)}--${rounded(cell.dataset.high)}]}` : text;
  };
  const caption = texCell([`${table.dataset.said}.`, page.caption].filter(Boolean).join(" "));
  const sides = columns.map(({ head }) => (head.classList.contains("num") ? "r" : "l")).join("");
  return [
    "% needs \\usepackage{booktabs}", "\\begin{table}", "\\centering", `\\caption{${caption}}`, `\\begin{tabular}{${sides}}`, "\\toprule",
    ...texGroups(table, columns.map(({ head }) => head)), texLine(columns.map(({ head }) => texCell(textOf(head)))), "\\midrule",
    ...rowsOf(table).map((row) => texLine(columns.map(({ column }) => entry(row.cells[column])))),
    "\\bottomrule", "\\end{tabular}", "\\end{table}", "",
  ].join("\n");
}

/** The name of a file of this run, such as `run-scores`. */
const fileOf = (name) => `${page.run}-${name}`.replace(/[^\w.]+/g, "-").replace(/^-+|-+$/g, "");

function takeTable(table) {
  return take([
    ["CSV", () => saved(`${fileOf(table.dataset.name ?? "answers")}.csv`, new Blob([csv(numbers(table))], { type: "text/csv" }))],
    ["copy Markdown", () => copied(markdown(grid(table)))],
    ["copy LaTeX", () => copied(latex(table))],
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
