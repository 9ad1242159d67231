// Means over tasks, curves and fronts of a run's cells, for any axis and filter; as pbcore.analysis.tradeoff and
// pbcore.report.scopes have them.

const points = page.points ?? null; // a comparison has none
const SHOWN = 12; // curves of a plot that are seen without asking
const SCORE = { key: "score", label: "score (%)", better: "more" };

const axisOf = (key, fallback) => [SCORE, ...(points?.axes ?? [])].find((axis) => axis.key === key) ?? fallback;
const sum = (values) => values.reduce((total, value) => total + value, 0);
const mean = (values) => sum(values) / values.length;

/** The numbers of the cells of these tasks that the filters leave; `sampler` is not one of them, since others' scores decide what a mean is over. */
function cellsOf(tasks, where) {
  const { model, task } = points.cells;
  const models = where.model === undefined ? null : points.models.indexOf(where.model);
  const only = where.task === undefined ? null : points.tasks.indexOf(where.task);
  const found = [];
  for (let cell = 0; cell < task.length; cell++) {
    if (tasks.has(task[cell]) && (models === null || model[cell] === models) && (only === null || task[cell] === only)) found.push(cell);
  }
  return found;
}

/** Cells by model and sampler, in the order in which they come. */
function bySampler(cells) {
  const { model, sampler } = points.cells;
  const groups = new Map();
  for (const cell of cells) {
    const key = model[cell] * points.samplers.length + sampler[cell];
    if (!groups.has(key)) groups.set(key, []);
    groups.get(key).push(cell);
  }
  return [...groups.values()];
}

/** The mean over the cells of several tasks. */
const meanOf = (axis, cells) => mean(cells.map((cell) => points.cells[axis.key][cell]));

/** The mean score in % with its interval, from independent ones (MOVER). */
function scoreOf(cells) {
  const { score, low, high } = points.cells;
  const value = mean(cells.map((cell) => score[cell]));
  if (cells.some((cell) => low[cell] === null || high[cell] === null)) return { value, low: null, high: null };
  const below = Math.sqrt(sum(cells.map((cell) => (score[cell] - low[cell]) ** 2))) / cells.length;
  const above = Math.sqrt(sum(cells.map((cell) => (high[cell] - score[cell]) ** 2))) / cells.length;
  return { value, low: value - below, high: value + above };
}

/** Which points no other one beats on both axes, in the order of x. */
function frontOf(dots, x, y) {
  const [right, up] = [x, y].map((axis) => (axis.better === "more" ? 1 : -1));
  const sorted = [...dots].sort((a, b) => right * (b.x - a.x) || up * (b.y - a.y));
  const front = [];
  for (const dot of sorted) {
    if (!front.length || up * dot.y > up * front[front.length - 1].y) front.push(dot);
  }
  return front.sort((a, b) => a.x - b.x);
}

/** The curves of these tasks: {line, dots}, each model's front, and the levels of models without a value on x. */
function curvesOf(tasks, where, x, y) {
  const { run, score, model, sampler, line, id, ceiling, elsewhere } = points.cells;
  const scored = cellsOf(tasks, where).filter((cell) => run[cell] && score[cell] !== null);
  const usable = scored.filter((cell) => [x, y].every((axis) => axis === SCORE || points.cells[axis.key][cell] > 0));
  const wanted = new Map();
  for (const group of bySampler(usable)) {
    const own = model[group[0]];
    if (!wanted.has(own)) wanted.set(own, new Set());
    for (const cell of group) wanted.get(own).add(points.cells.task[cell]);
  }
  const chosen = where.sampler === undefined ? null : points.samplers.indexOf(where.sampler);
  const lines = new Map();
  for (const group of bySampler(usable)) {
    const [first] = group;
    if (group.length !== wanted.get(model[first]).size || (chosen !== null && sampler[first] !== chosen)) continue;
    const result = scoreOf(group);
    const ends = y === SCORE ? { low: result.low, high: result.high } : { low: null, high: null };
    const lid = y === SCORE && group.every((cell) => ceiling[cell] !== null) ? mean(group.map((cell) => ceiling[cell])) : null;
    const dot = {
      x: x === SCORE ? result.value : meanOf(x, group), y: y === SCORE ? result.value : meanOf(y, group), ...ends,
      ceiling: lid !== null && lid < 99.95 ? lid : null, model: model[first], sampler: sampler[first], line: line[first],
      cell: group.length === 1 ? id[first] : null, cells: group, score: result,
    };
    if (!lines.has(dot.line)) lines.set(dot.line, []);
    lines.get(dot.line).push(dot);
  }
  const fronts = points.models.map((_, number) => frontOf([...lines.values()].flat().filter((dot) => dot.model === number), x, y));
  const leads = leading(lines, fronts.flat(), x);
  const curves = [...lines].sort(([a], [b]) => a - b).map(([number, dots]) => ({ line: number, dots: dots.sort((a, b) => a.x - b.x || b.y - a.y), leads: leads.has(number) }));
  const silent = y !== SCORE || x === SCORE ? [] : scored.filter((cell) => elsewhere[cell] && points.cells[x.key][cell] === null);
  const every = new Set([...usable, ...silent].map((cell) => points.cells.task[cell])).size;
  const levels = bySampler(silent).filter((group) => group.length === every && (chosen === null || sampler[group[0]] === chosen))
    .map((group) => ({ line: line[group[0]], model: model[group[0]], sampler: sampler[group[0]], score: scoreOf(group) }));
  return { curves, fronts, levels };
}

/** The curves that are shown first: those with most points on their model's front, then the best for their speed. */
function leading(lines, front, x) {
  const best = new Set(front);
  const speed = (dot) => (x === SCORE ? 1 : x.better === "more" ? Math.log2(1 + dot.x) : 1 / Math.log2(1 + dot.x));
  const ranked = [...lines].map(([number, dots]) => [dots.filter((dot) => best.has(dot)).length, Math.max(...dots.map((dot) => dot.score.value * speed(dot))), number]);
  ranked.sort((a, b) => b[0] - a[0] || b[1] - a[1] || a[2] - b[2]);
  return new Set(ranked.slice(0, SHOWN).map(([, , number]) => number));
}

/** The entries of a table's row of means for these keys of its columns: of one sampler's cells, over `tasks` tasks of its model. */
function rowOf(keys, cells, tasks) {
  const ran = cells.filter((cell) => points.cells.run[cell]);
  const scored = ran.filter((cell) => points.cells.score[cell] !== null);
  const entries = {};
  for (const key of keys) {
    const values = points.cells[key];
    if (key === "tasks") entries.tasks = `${scored.length} of ${tasks}`;
    else if (key === "score") entries.score = scored.length === tasks ? scoreOf(scored) : null;
    else if (key === "samples_per_second") entries[key] = ran.length && ran.every((cell) => points.cells.seconds[cell] > 0) ? sum(ran.map((cell) => points.cells.n[cell])) / sum(ran.map((cell) => points.cells.seconds[cell])) : null;
    else if (values === undefined) entries[key] = null;
    else {
      const known = ran.length > 0 && ran.every((cell) => values[cell] !== null) && ran.length === tasks;
      entries[key] = known ? meanOf({ key }, ran) : null;
    }
  }
  return entries;
}

/** Fills the means of tables anew, over the tasks that the filters leave. */
function fillMeans(table, where) {
  const tasks = new Set(points.tasks.keys());
  const cells = cellsOf(tasks, { task: where.task });
  const wanted = points.models.map((_, number) => new Set(cells.filter((cell) => points.cells.model[cell] === number).map((cell) => points.cells.task[cell])).size);
  const groups = new Map(bySampler(cells).map((group) => [JSON.stringify([points.models[points.cells.model[group[0]]], points.samplers[points.cells.sampler[group[0]]]]), group]));
  const heads = [...table.tHead.rows[table.tHead.rows.length - 1].cells];
  const keys = heads.map((head) => head.dataset.key).filter((key) => key);
  for (const row of table.tBodies[0].rows) {
    const group = groups.get(JSON.stringify([row.dataset.model, row.dataset.sampler]));
    row.classList.toggle("no-cells", group === undefined);
    if (group === undefined) continue;
    const entries = rowOf(keys, group, wanted[points.cells.model[group[0]]]);
    heads.forEach((head, column) => {
      const key = head.dataset.key;
      if (!key || !(key in entries)) return;
      const [cell, value] = [row.cells[column], entries[key]];
      if (typeof value === "string") cell.textContent = value;
      else if (key === "score") scored(cell, value, Number(head.dataset.places));
      else {
        cell.dataset.v = value ?? "";
        cell.textContent = value === null ? "–" : fixed(value, Number(head.dataset.places));
      }
    });
  }
}

/** A score with its interval in a table's cell. */
function scored(cell, score, places) {
  cell.dataset.v = score?.value ?? "";
  cell.dataset.low = score?.low ?? "";
  cell.dataset.high = score?.high ?? "";
  cell.replaceChildren(score === null ? "–" : fixed(score.value, places));
  if (score !== null && score.low !== null) cell.append(" ", el("span", { class: "ci" }, `[${fixed(score.low, 0)}–${fixed(score.high, 0)}]`));
}
