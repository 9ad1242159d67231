// Sorting, filtering, the theme, and what the address shows.

/** Changes the address without another entry in the history. */
function note(changes) {
  history.replaceState(history.state, "", address(changes) === "#" ? location.href.split("#")[0] : address(changes));
  document.documentElement.dataset.shown = location.hash;
}

const sorters = new Map(); // a table's name in the address → sorts it

/** Makes a table's heads sort its rows; `whole` is called before, to complete a table that is shown in parts. */
function sortable(table, name, whole = () => {}) {
  const heads = [...table.tHead.rows[table.tHead.rows.length - 1].cells];
  heads.forEach((head, column) => {
    const button = el("button", { type: "button", onclick: () => {
      const falling = head.getAttribute("aria-sort") === "ascending";
      sort(column, falling);
      note({ sort: `${name}~${column}~${falling ? "down" : "up"}` });
    } });
    button.append(...head.childNodes);
    head.append(button);
  });
  roving(table.tHead, "button");
  const key = (row, column) => {
    const cell = row.cells[column];
    if (cell.dataset.v === undefined) return cell.textContent;
    return cell.dataset.v === "" ? null : Number(cell.dataset.v);
  };
  const sort = (column, falling) => {
    if (heads[column] === undefined) return;
    whole();
    const body = table.tBodies[0];
    const rows = [...body.rows].map((row) => [key(row, column), row]);
    rows.sort(([a], [b]) => {
      if (a === null || b === null) return (a === null) - (b === null); // what was not measured stays at the end
      const order = typeof a === "number" ? a - b : a.localeCompare(b, "en", { numeric: true });
      return falling ? -order : order;
    });
    body.append(...rows.map(([, row]) => row));
    heads.forEach((head) => head.removeAttribute("aria-sort"));
    heads[column].setAttribute("aria-sort", falling ? "descending" : "ascending");
  };
  sorters.set(name, sort);
}

function sortedAs(where) {
  const [name, column, order] = (where.sort || "").split("~");
  sorters.get(name)?.(Number(column), order === "down");
}

const FILTERS = ["model", "task", "sampler"];

function fillFilters() {
  const own = { model: points?.models, task: points?.tasks, sampler: points?.samplers };
  for (const name of FILTERS) {
    const values = own[name] ?? [...new Set([...document.querySelectorAll(`#main [data-${name}]`)].map((node) => node.dataset[name]))];
    byId(`filter-${name}`).append(...values.map((value) => el("option", { value }, value.slice(0, 80))));
    byId(`filter-${name}`).addEventListener("change", (event) => { location.replace(address({ [name]: event.target.value })); });
  }
  byId("filters").addEventListener("reset", () => { location.replace(address({ model: null, task: null, sampler: null })); });
  byId("filters").hidden = false;
}

const FILTERED = "tr, td[data-task], th[data-task], [data-model], details[data-task]";

/** Hides the rows, columns, cards and tasks of a part that the filters leave out. */
function filterPart(part, where) {
  const out = (node) => FILTERS.some((name) => where[name] !== undefined && node.dataset[name] !== undefined && node.dataset[name] !== where[name]);
  const folds = [...part.querySelectorAll("details[data-fold]")].filter((fold) => !fold.open);
  const folded = new Set(folds.flatMap((fold) => [...fold.children].slice(1)));
  const walk = (node) => {
    for (const child of node.children) {
      if (folded.has(child) || child.tagName === "svg") continue;
      if (child.matches(FILTERED)) child.toggleAttribute("hidden", out(child));
      if (child.childElementCount) walk(child);
    }
  };
  walk(part);
}

/** A button for the columns that a table shows on demand; empty where there are none. */
function moreColumns(table) {
  if (table.dataset.more === undefined) return "";
  const button = el("button", { type: "button", class: "more-columns", "aria-pressed": "false", onclick: () => {
    const folded = table.classList.toggle("folded");
    button.setAttribute("aria-pressed", String(!folded));
  } }, "more columns");
  table.classList.add("folded");
  return button;
}

/** What a fold holds is made ready when it is opened: sorting, plots, filters. */
function prepare(part) {
  for (const table of part.querySelectorAll("table.sortable")) {
    if (table.dataset.ready || !shownNow(table)) continue;
    table.dataset.ready = "yes";
    sortable(table, table.dataset.sort);
    table.closest(".wide").after(moreColumns(table), takeTable(table));
    if (table.matches(".matrix, .heat")) roving(table.tBodies[0], "a");
  }
  if (points === null) return;
  for (const figure of part.querySelectorAll("figure.plot")) {
    if (!figure.dataset.ready) livePlot(figure);
    figure.dataset.ready = "yes";
    if (shownNow(figure) && !byId("main").hidden) draw(figure);
  }
}

/** Applies filters, axes and folds of the address. */
function filter(where) {
  for (const name of FILTERS) byId(`filter-${name}`).value = where[name] ?? "";
  const main = byId("main");
  main.classList.toggle("one-task", where.task !== undefined);
  main.classList.toggle("one-sampler", where.sampler !== undefined);
  foldsAs(where);
  filterPart(main, where);
  for (const cards of document.querySelectorAll("[data-cards]")) cards.hidden = cards.dataset.cards !== (where.task ?? "");
  for (const part of document.querySelectorAll("#main .category")) {
    const tasks = [...part.querySelectorAll("details[data-task]")].map((task) => task.dataset.task);
    part.hidden = where.task !== undefined && !tasks.includes(where.task);
  }
  if (points !== null) axesAs(where);
  const best = page.chosen?.[where.task ?? ""] ?? {};
  for (const row of document.querySelectorAll("table.heat tbody tr")) row.classList.toggle("best", best[row.dataset.model] === row.dataset.sampler);
  prepare(main);
  moving.forEach((refresh) => refresh());
}

const folds = [...document.querySelectorAll("#main details[data-fold]")];
const nameOfFold = (fold) => fold.dataset.fold.replaceAll("~", "_");
const folded = folds.filter((fold) => fold.open).map(nameOfFold).join("~"); // those that are open at first
let folding = false;
let printing = false;

/** Opens the folds that the address names, and those that a task filter is about. */
function foldsAs(where) {
  const open = new Set((where.open ?? folded).split("~"));
  folding = true;
  for (const fold of folds) {
    const about = where.task !== undefined && (fold.dataset.task === where.task || fold.querySelector("details[data-task]") !== null);
    const should = open.has(nameOfFold(fold)) || about;
    if (fold.open !== should) fold.open = should;
  }
  setTimeout(() => { folding = false; });
}

/** A fold that was opened or closed by hand stands in the address. */
function toggled(fold) {
  if (fold.open) {
    filterPart(fold, place());
    prepare(fold);
  }
  if (folding || printing) return;
  const open = folds.filter((one) => one.open).map(nameOfFold).join("~");
  note({ open: open === folded ? null : open });
}

let turn = 0;
const left = new Map(); // entry of the history → where it was left
let entry = null;
const title = document.title;

/** The entry's number in the history; the address alone can't tell one visit of a view from another. */
function visit() {
  if (!history.state?.visit) history.replaceState({ visit: `${Date.now()}-${Math.random()}` }, "");
  return history.state.visit;
}

function remember() {
  const node = document.activeElement;
  if (node !== document.body) left.set(entry, { y: scrollY, node, href: node.getAttribute("href") });
  else left.set(entry, { ...left.get(entry), y: scrollY });
}

/** Puts a reader who came back where they were, and one who goes on to the view's heading. */
function arrive(view, where, known) {
  if (known !== undefined) {
    const same = known.node?.isConnected ? known.node : known.href ? [...view.querySelectorAll("a")].find((link) => link.getAttribute("href") === known.href) : null;
    (same ?? view.querySelector("h2"))?.focus({ preventScroll: true });
    scrollTo(0, known.y ?? 0);
  } else if (where.at !== undefined) {
    const head = byId(`at=${where.at}`);
    for (let part = head; part; part = part.parentElement) if (part instanceof HTMLDetailsElement) part.open = true;
    prepare(byId("main"));
    (head?.closest("summary") ?? head)?.focus();
    head?.scrollIntoView();
  } else if (view.id === "view") {
    scrollTo(0, 0);
    view.querySelector(where.sample === undefined ? "h2" : "h3, h2")?.focus();
  }
}

async function route(event) {
  const where = place();
  const mine = ++turn;
  entry = visit();
  const known = left.get(entry);
  const view = byId("view");
  const views = where.cell !== undefined || where.answers !== undefined;
  if (!views) byId("main").hidden = false; // its plots are drawn as wide as there is room
  filter(where);
  let [name, nodes] = ["", []];
  if (views) [name, nodes] = where.cell !== undefined ? await cellView(where) : answersView();
  if (mine !== turn) return; // the address has changed meanwhile
  view.replaceChildren(...nodes.filter((node) => node !== null));
  view.hidden = !views;
  byId("main").hidden = views;
  byId("filters").hidden = where.cell !== undefined;
  if (byId("sections")) byId("sections").hidden = views;
  document.title = name ? `${name.slice(0, 120)} · ${title}` : title;
  sortedAs(where);
  moving.forEach((refresh) => refresh());
  if (event !== undefined || where.at !== undefined) arrive(views ? view : byId("main"), where, known);
  document.documentElement.dataset.shown = location.hash;
}

function theme() {
  const order = { "": "dark", dark: "light", light: "" };
  const names = { "": "as the system", dark: "dark", light: "light" };
  let now = "";
  try {
    now = localStorage.getItem("pbcore-theme") || "";
  } catch {
    now = ""; // a file without storage
  }
  const show = () => {
    document.documentElement.dataset.theme = now;
    byId("theme").textContent = `colours: ${names[now]}`;
  };
  byId("theme").addEventListener("click", () => {
    now = order[now] ?? "";
    try {
      localStorage.setItem("pbcore-theme", now);
    } catch {
      // it lasts as long as the page
    }
    show();
  });
  byId("theme").hidden = false;
  show();
}

history.scrollRestoration = "manual";
theme();
fillFilters();
document.querySelectorAll("#main table.sortable").forEach((table, number) => { table.dataset.sort = `${table.dataset.name}.${number}`; });
if (points !== null) document.querySelector("figure.first-plot")?.prepend(axisTools());
for (const fold of folds) {
  fold.querySelector("summary").addEventListener("click", () => filterPart(fold, place())); // before it is seen
  fold.addEventListener("toggle", () => toggled(fold));
}
if (matchMedia("(max-width: 620px)").matches) byId("controls").open = false;
document.querySelectorAll("code.hint").forEach((code) => code.replaceChildren(plain(hint())));
document.addEventListener("click", (event) => {
  const target = event.target instanceof Element ? event.target : null;
  const dot = target?.closest("[data-cell]");
  if (dot) location.hash = address({ cell: dot.dataset.cell });
  const link = target?.closest("#main a[href^='#'], #sections a");
  if (link && event.button === 0 && !event.ctrlKey && !event.metaKey && !event.shiftKey) {
    event.preventDefault();
    remember();
    const [name, value] = link.getAttribute("href").slice(1).split("&")[0].split("=");
    const only = /&only=(\w+)/.exec(link.getAttribute("href"));
    location.hash = address({ at: null, sort: null, [name]: decodeURIComponent(value), ...(only ? { only: only[1] } : {}) });
  }
});
document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault(); // the address keeps its view
  byId("content").focus();
});
addEventListener("scroll", remember, { passive: true });
addEventListener("focusin", remember);
addEventListener("hashchange", route);
route();
const closed = [];
addEventListener("beforeprint", () => {
  printing = true;
  for (const part of document.querySelectorAll("#main details:not([open], .take)")) {
    closed.push(part);
    part.open = true;
  }
  filterPart(byId("main"), place());
  prepare(byId("main"));
});
addEventListener("afterprint", () => {
  for (const part of closed.splice(0)) part.open = false;
  setTimeout(() => { printing = false; });
});
let resized = null;
addEventListener("resize", () => {
  clearTimeout(resized);
  if (points !== null) resized = setTimeout(() => { if (!byId("main").hidden) drawAll(); }, 150);
});
