// Sorting, filtering, the theme, and what the address shows.

/** Makes a table's heads sort its rows; `whole` is called before, to complete a table that is shown in parts. */
function sortable(table, whole = () => {}) {
  const heads = [...table.tHead.rows[0].cells];
  heads.forEach((head, column) => {
    const button = el("button", { type: "button", onclick: () => sort(column) });
    button.append(...head.childNodes);
    head.append(button);
  });
  const key = (row, column) => {
    const cell = row.cells[column];
    if (cell.dataset.v === undefined) return cell.textContent;
    return cell.dataset.v === "" ? null : Number(cell.dataset.v);
  };
  const sort = (column) => {
    whole();
    const falling = heads[column].getAttribute("aria-sort") === "ascending";
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

/** Hides the rows, curves, tasks and categories that the filters leave out. */
function filter(where) {
  for (const name of FILTERS) byId(`filter-${name}`).value = where[name] ?? "";
  const out = (node) => FILTERS.some((name) => where[name] !== undefined && node.dataset[name] !== undefined && node.dataset[name] !== where[name]);
  for (const node of document.querySelectorAll("#main tr, #main figure [data-model], #main details[data-task]")) node.toggleAttribute("hidden", out(node));
  for (const part of document.querySelectorAll("#main section.category")) {
    part.hidden = ![...part.querySelectorAll("details[data-task]")].some((task) => !task.hidden && task.querySelector("tbody tr:not([hidden])"));
  }
  if (where.task !== undefined) for (const task of document.querySelectorAll("#main details[data-task]:not([hidden])")) task.open = true;
}

let turn = 0;

async function route(event) {
  const where = place();
  const mine = ++turn;
  const view = byId("view");
  filter(where);
  if (where.cell === undefined) {
    view.hidden = true;
    view.replaceChildren();
    byId("main").hidden = byId("filters").hidden = false;
    document.documentElement.dataset.shown = location.hash;
    return;
  }
  const nodes = await cellView(where);
  if (mine !== turn) return; // the address has changed meanwhile
  view.replaceChildren(...nodes.filter((node) => node !== null));
  view.hidden = false;
  byId("main").hidden = byId("filters").hidden = true;
  document.documentElement.dataset.shown = location.hash;
  if (event !== undefined) {
    window.scrollTo(0, 0);
    view.querySelector(where.sample === undefined ? "h2" : "h3, h2").focus();
  }
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

theme();
fillFilters();
document.querySelectorAll("#main table.sortable").forEach((table) => sortable(table));
document.addEventListener("click", (event) => {
  const dot = event.target instanceof Element ? event.target.closest("[data-cell]") : null;
  if (dot !== null) location.hash = address({ cell: dot.dataset.cell });
});
window.addEventListener("hashchange", route);
route();
window.addEventListener("beforeprint", () => document.querySelectorAll("#main details").forEach((part) => { part.open = true; }));
