// Sorting, filtering, the theme, and what the address shows.

/** Changes the address without another entry in the history. */
function note(changes) {
  history.replaceState(history.state, "", address(changes) === "#" ? location.href.split("#")[0] : address(changes));
  document.documentElement.dataset.shown = location.hash;
}

const sorters = new Map(); // a table's name in the address → sorts it

/** Makes a table's heads sort its rows; `whole` is called before, to complete a table that is shown in parts. */
function sortable(table, name, whole = () => {}) {
  const heads = [...table.tHead.rows[0].cells];
  heads.forEach((head, column) => {
    const button = el("button", { type: "button", onclick: () => {
      const falling = head.getAttribute("aria-sort") === "ascending";
      sort(column, falling);
      note({ sort: `${name}.${column}.${falling ? "down" : "up"}` });
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
  const [name, column, order] = (where.sort || "").split(".");
  sorters.get(name)?.(Number(column), order === "down");
}

const FILTERS = ["model", "task", "sampler"];

function fillFilters() {
  for (const name of FILTERS) {
    const values = new Set([...document.querySelectorAll(`#main [data-${name}]`)].map((node) => node.dataset[name]));
    byId(`filter-${name}`).append(...[...values].map((value) => el("option", { value }, value.slice(0, 80))));
    byId(`filter-${name}`).addEventListener("change", (event) => { location.replace(address({ [name]: event.target.value })); });
  }
  byId("filters").addEventListener("reset", () => { location.replace(address({ model: null, task: null, sampler: null })); });
  byId("filters").hidden = false;
}

/** Hides the rows, columns, curves, points, tasks and categories that the filters leave out, and means over what they divide. */
function filter(where) {
  for (const name of FILTERS) byId(`filter-${name}`).value = where[name] ?? "";
  const out = (node) => FILTERS.some((name) => where[name] !== undefined && node.dataset[name] !== undefined && node.dataset[name] !== where[name]);
  for (const node of document.querySelectorAll("#main tr, #main td[data-task], #main th[data-task], #main [data-model], #main .dot, #main details[data-task]")) node.toggleAttribute("hidden", out(node));
  for (const part of document.querySelectorAll("#main .category")) {
    part.hidden = ![...part.querySelectorAll("details[data-task]")].some((task) => !task.hidden && task.querySelector("tbody tr:not([hidden])"));
    if (where.task !== undefined && !part.hidden) part.open = true;
  }
  byId("main").classList.toggle("one-task", where.task !== undefined);
  byId("main").classList.toggle("one-sampler", where.sampler !== undefined);
  if (where.task !== undefined) for (const task of document.querySelectorAll("#main details[data-task]:not([hidden])")) task.open = true;
  moving.forEach((refresh) => refresh());
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
  filter(where);
  const views = where.cell !== undefined || where.answers !== undefined;
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
document.querySelectorAll("#main table.sortable").forEach((table, number) => {
  sortable(table, String(number));
  table.parentElement.after(takeTable(table));
  if (table.classList.contains("matrix")) roving(table.tBodies[0], "a");
});
document.querySelectorAll("figure.plot").forEach(livePlot);
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
const folded = [];
addEventListener("beforeprint", () => {
  for (const part of document.querySelectorAll("#main details:not([open], .take)")) {
    folded.push(part);
    part.open = true;
  }
});
addEventListener("afterprint", () => { for (const part of folded.splice(0)) part.open = false; });
