// The plots, drawn on the axes that the address names: curves with intervals, fronts and ceilings, points that tell their figures
// beside their mark, a legend that switches curves.

const SVG = "http://www.w3.org/2000/svg";
const MARGIN = { left: 50, right: 16, top: 16, bottom: 46 };
const SCORE = { key: "score", label: "score (%)", better: "more" };
const DASHES = ["", "6 3", "2 3", "8 3 2 3"];

function withAttributes(node, attributes) {
  for (const [name, value] of Object.entries(attributes)) if (value !== null && value !== undefined) node.setAttribute(name, value);
  return node;
}

function svgNode(tag, attributes = {}, ...children) {
  const node = withAttributes(document.createElementNS(SVG, tag), attributes);
  node.append(...children);
  return node;
}

/** Where values of an axis stand between two ends in pixels, and its ticks. */
function scaleOf(values, from, to, logarithmic, least = 0, most = Infinity) {
  const place = logarithmic ? Math.log2 : (value) => value;
  let step = 0;
  let [low, high] = [Math.min(...values), Math.max(...values)].map(place);
  if (logarithmic) [low, high] = high - low < 0.5 ? [low - 0.5, high + 0.5] : [low, high];
  else {
    step = stepOf(low, high);
    low = Math.max(least, Math.floor(low / step + 1e-9) * step);
    high = Math.min(most, Math.ceil(high / step - 1e-9) * step);
    if (high <= low) [low, high] = [Math.max(least, low - step), low + step];
  }
  const at = (value) => from + ((to - from) * (place(value) - low)) / (high - low);
  return { at, low, high, ticks: logarithmic ? powers(low, high) : steps(low, high) };

  function steps() {
    const count = Math.floor((high - low) / step + 1e-9);
    return Array.from({ length: count + 1 }, (_, i) => Number((low + i * step).toPrecision(10)));
  }
}

/** A round step for at most six of them. */
function stepOf(low, high) {
  const span = high > low ? high - low : Math.abs(high) / 2 || 1;
  const power = 10 ** Math.floor(Math.log10(span / 6));
  return [1, 2, 2.5, 5, 10, 20].map((one) => one * power).find((step) => span / step <= 6);
}

/** Round numbers between two logarithms: powers of two, or where too few of those lie there, finer ones. */
function powers(low, high) {
  const [from, to] = [2 ** (low - 1e-6), 2 ** (high + 1e-6)];
  const decades = Array.from({ length: 40 }, (_, i) => 10 ** (i - 20));
  const series = [
    Array.from({ length: 120 }, (_, i) => 2 ** (i - 60)),
    decades.flatMap((one) => [1, 2, 5].map((digit) => digit * one)),
    decades.flatMap((one) => [1, 1.5, 2, 3, 4, 5, 6, 8].map((digit) => digit * one)),
    decades.flatMap((one) => [1, 1.2, 1.4, 1.6, 1.8, 2, 2.5, 3, 3.5, 4, 4.5, 5, 6, 7, 8, 9].map((digit) => digit * one)),
    decades.flatMap((one) => Array.from({ length: 90 }, (_, i) => (1 + i / 10) * one)),
  ].map((ticks) => ticks.filter((tick) => tick >= from && tick <= to));
  const ticks = series.find((some, i) => some.length >= (i === 0 ? 2 : 3)) ?? series[4];
  const every = Math.ceil(ticks.length / 9);
  return ticks.filter((_, i) => i % every === 0).map((tick) => Number(tick.toPrecision(6)));
}

const axisText = (value) => String(Number(value.toPrecision(4)));

/** A marker's shape: filled, hollow, or with a dot within. */
function markOf(look, x, y) {
  const stroked = look.marker === 5 || look.marker === 6;
  const kind = stroked ? "mark stroke" : look.hollow ? "mark open" : "mark";
  const parts = [svgNode("path", { d: page.shapes[look.marker], class: kind, transform: `translate(${x.toFixed(1)} ${y.toFixed(1)})` })];
  if (look.dotted || (stroked && look.hollow)) parts.push(svgNode("circle", { cx: x.toFixed(1), cy: y.toFixed(1), r: stroked ? 3.2 : 1.8, class: look.hollow || stroked ? "pip" : "pip light" }));
  return parts;
}

const pathOf = (places) => "M" + places.map(([x, y]) => `${x.toFixed(1)},${y.toFixed(1)}`).join("L");
const modelOf = (line) => points.models[points.lines[line].model];
const nameOfDot = (dot) => `${modelOf(dot.line)} ${points.samplers[dot.sampler]}`;

/** A point's value on an axis, null if it has none. */
const valueOn = (axis, dot) => (axis === SCORE ? dot.score[0] : dot.at[points.axes.indexOf(axis)]);

/** The figures of a point: the score, then its value on each axis. */
function toldOf(dot, x, y) {
  const [score, low, high] = dot.score;
  const interval = low === null ? "" : ` [${fixed(low, 0)}–${fixed(high, 0)}]`;
  const lines = [`${fixed(score, 1)} %${interval}${dot.n > 1 ? `, mean of ${dot.n} tasks` : ""}`];
  if (dot.ceiling !== null) lines.push(`ceiling ${fixed(dot.ceiling, 1)} %`);
  const shown = [x, y].filter((axis) => axis !== SCORE);
  for (const axis of [...shown, ...points.axes.filter((other) => !shown.includes(other))]) {
    const value = valueOn(axis, dot);
    if (value !== null) lines.push(`${axisText(value)} ${axis.label}`);
  }
  return lines;
}

/** What a figure shows on two axes: curves {line, dots, leads}, each model's front, and levels of models without a value on x. */
function shownIn(figure, where, x, y) {
  const plot = points.plots[figure.dataset.plot || where.task || ""];
  if (plot === undefined) return { curves: [], fronts: [], levels: [] };
  const axis = points.axes.indexOf(x);
  const passes = (dot) => (where.model === undefined || modelOf(dot.line) === where.model) && (where.sampler === undefined || points.samplers[dot.sampler] === where.sampler);
  const dots = plot.dots.filter((dot) => passes(dot) && dot.at[axis] !== null && valueOn(y, dot) !== null)
    .map((dot) => ({ ...dot, x: dot.at[axis], y: valueOn(y, dot), ceiling: y === SCORE ? dot.ceiling : null, bounds: y === SCORE ? dot.score.slice(1) : [null, null] }))
    .sort((a, b) => a.x - b.x || b.y - a.y);
  const leads = new Set(plot.leads[axis]);
  const lines = [...new Set(dots.map((dot) => dot.line))].sort((a, b) => a - b);
  const curves = lines.map((line) => ({ line, dots: dots.filter((dot) => dot.line === line), leads: leads.has(line) }));
  if (y !== SCORE) return { curves, fronts: [], levels: [] };
  const best = dots.filter((dot) => dot.front.includes(axis));
  const fronts = points.models.map((model) => best.filter((dot) => modelOf(dot.line) === model));
  return { curves, fronts, levels: plot.levels[axis].filter(passes) };
}

/** Which curves the address hides or adds to those that lead. */
function isShown(curve, where) {
  const has = (name) => (where[name] ?? "").split(".").includes(String(curve.line));
  return has("off") ? false : has("on") ? true : curve.leads;
}

const axisOf = (key) => points.axes.find((axis) => axis.key === key);
const wantedAxes = (where) => [axisOf(where.x) ?? points.axes[0], axisOf(where.y) ?? SCORE];

/** Draws a figure anew, as the address says. */
function draw(figure) {
  const where = place();
  const [x, y] = wantedAxes(where);
  const { curves, fronts, levels } = x === undefined ? { curves: [], fronts: [], levels: [] } : shownIn(figure, where, x, y);
  figure.hidden = !curves.length && !levels.length;
  if (figure.hidden) return;
  const width = Math.max(280, Math.min(1100, Math.floor(figure.clientWidth || 460)));
  const height = width < 600 ? 300 : 340;
  const seen = curves.filter((curve) => isShown(curve, where));
  const dots = seen.flatMap((curve) => curve.dots);
  const heights = dots.flatMap((dot) => [dot.y, ...dot.bounds, dot.ceiling]).concat(levels.flatMap(({ score }) => score)).filter((value) => value !== null);
  const linear = where.scale === "linear";
  const across = scaleOf(dots.length ? dots.map((dot) => dot.x) : [1, 2], MARGIN.left + 10, width - MARGIN.right - 10, !linear);
  const up = scaleOf(heights.length ? heights : [0, 100], height - MARGIN.bottom, MARGIN.top, y !== SCORE && !linear, 0, y === SCORE ? 100 : Infinity);
  const cut = y === SCORE && up.low > 0 ? `, from ${axisText(up.low)}` : "";
  const taken = seen.flatMap((curve) => marksOf(curve, across, up));
  const body = [bestCorner(width, height, x, y, taken), frame(width, height, across, up, x.label, `${y.label}${cut}`)];
  const bands = fronts.map((front) => front.filter((dot) => seen.some((curve) => curve.line === dot.line))).filter((front) => front.length > 1);
  for (const front of bands) {
    body.push(svgNode("path", { class: "front", "data-model": modelOf(front[0].line), d: pathOf(front.map((dot) => [across.at(dot.x), up.at(dot.y)])) }));
  }
  for (const level of levels) body.push(levelOf(level, up, width));
  for (const curve of seen) body.push(curveOf(curve, across, up, x, y));
  body.push(...labels(figure, seen, across, up, taken, { width, bottom: height - MARGIN.bottom }, where));
  const titled = `${figure.dataset.title}: ${y.label} over ${x.label}; ${seen.map((curve) => points.lines[curve.line].name).join(", ")}. The figures are in the tables.`;
  const svg = svgNode("svg", { viewBox: `0 0 ${width} ${height}`, width, height, role: "group", "aria-label": titled, class: "plot-area" }, ...body);
  figure.querySelector(".plot-area").replaceWith(svg);
  figure.querySelector(".tip")?.remove();
  roving(svg, ".dot");
  legend(figure, curves, levels, where);
  const signs = [
    dots.some((dot) => dot.bounds[0] !== null) && ["bar", "95 % interval"],
    bands.length > 0 && ["front", "best score at each speed of a model (Pareto front)"],
    dots.some((dot) => dot.ceiling !== null) && ["ceiling", "ceiling: what an exact model reaches under the sampler"],
  ];
  if (figure.matches(".first-plot")) figure.querySelector(".legends").append(key(signs.filter((sign) => sign)));
}

/** What the signs of a plot mean. */
function key(signs) {
  const sign = (kind) => svgNode("svg", { viewBox: "-14 -7 28 14", "aria-hidden": "true" }, svgNode("path", { class: kind, d: kind === "bar" ? "M0,-7V7" : "M-13,0H13" }));
  return el("p", { class: "key" }, ...signs.map(([kind, meaning]) => el("span", {}, sign(kind), ` ${meaning}`)));
}

const isFree = (box, taken) => taken.every((other) => box.x + box.w < other.x || other.x + other.w < box.x || box.y + box.h < other.y || other.y + other.h < box.y);

/** The corner in which the best samplers stand: fast and right. Its word stands where no mark is, and no other text comes there. */
function bestCorner(width, height, x, y, taken) {
  const [inner, outer] = [width - MARGIN.left - MARGIN.right, height - MARGIN.top - MARGIN.bottom];
  const [right, top] = [x.better === "more", y.better === "more"];
  const [w, h] = [0.3 * inner, 0.36 * outer];
  const corner = [right ? MARGIN.left + inner : MARGIN.left, top ? MARGIN.top : MARGIN.top + outer];
  const [dx, dy] = [right ? -w : w, top ? h : -h];
  const shade = svgNode("path", { class: "best", d: `M${corner}h${dx}a${w},${h} 0 0 ${right === top ? 0 : 1} ${-dx},${dy}Z` });
  const [wide, high] = [30, 14];
  const spots = [0.72, 0.5, 0.3, 0.12].flatMap((down) => [0.03, 0.2, 0.4, 0.6].map((aside) => [aside, down])).filter(([aside, down]) => aside ** 2 + down ** 2 < 0.6);
  const boxes = spots.map(([aside, down]) => ({ x: right ? corner[0] - aside * w - wide : corner[0] + aside * w, y: top ? corner[1] + down * h : corner[1] - down * h - high, w: wide, h: high }));
  const box = boxes.find((one) => isFree(one, taken));
  if (box === undefined) return svgNode("g", {}, shade);
  taken.push(box);
  return svgNode("g", {}, shade, svgNode("text", { class: "best-word start", x: box.x.toFixed(1), y: (box.y + 11).toFixed(1) }, "best"));
}

function frame(width, height, across, up, below, beside) {
  const parts = [];
  const [bottom, right] = [height - MARGIN.bottom, width - MARGIN.right];
  for (const tick of up.ticks) {
    const y = up.at(tick).toFixed(1);
    parts.push(svgNode("path", { class: "grid", d: `M${MARGIN.left},${y}H${right}` }), svgNode("text", { x: MARGIN.left - 6, y: Number(y) + 4 }, axisText(tick)));
  }
  let last = -Infinity;
  for (const tick of across.ticks) {
    const x = across.at(tick);
    const mark = svgNode("g", { class: "tick", "data-x": tick, transform: `translate(${x.toFixed(1)} 0)` }, svgNode("path", { class: "grid", d: `M0,${MARGIN.top}V${bottom}` }));
    if (x - last > 30) {
      mark.append(svgNode("text", { class: "mid", y: bottom + 17 }, axisText(tick)));
      last = x;
    }
    parts.push(mark);
  }
  parts.push(svgNode("text", { class: "mid axis", x: (MARGIN.left + right) / 2, y: height - 8 }, below));
  parts.push(svgNode("text", { class: "mid axis", transform: `translate(12 ${(MARGIN.top + bottom) / 2}) rotate(-90)` }, beside));
  return svgNode("g", {}, ...parts);
}

function curveOf(curve, across, up, x, y) {
  const look = points.lines[curve.line];
  const at = curve.dots.map((dot) => [across.at(dot.x), up.at(dot.y)]);
  const parts = [];
  const lids = curve.dots.filter((dot) => dot.ceiling !== null);
  if (lids.length > 1) parts.push(svgNode("path", { class: "ceiling", d: pathOf(lids.map((dot) => [across.at(dot.x), up.at(dot.ceiling)])) }));
  if (at.length > 1) parts.push(svgNode("path", { class: "line", d: pathOf(at), "stroke-dasharray": DASHES[look.dash] || null }));
  curve.dots.forEach((dot, i) => {
    const [left, top] = at[i];
    const marks = [];
    const [low, high] = dot.bounds;
    if (low !== null) marks.push(svgNode("path", { class: "bar", d: `M${left.toFixed(1)},${up.at(low).toFixed(1)}V${up.at(high).toFixed(1)}` }));
    if (dot.ceiling !== null) marks.push(svgNode("path", { class: "lid", d: `M${(left - 5).toFixed(1)},${up.at(dot.ceiling).toFixed(1)}h10` }));
    const lines = toldOf(dot, x, y);
    const node = svgNode("g", { class: "dot", role: dot.cell === null ? "img" : "link", "aria-label": `${nameOfDot(dot)}: ${lines.join(", ")}`, "data-cell": dot.cell, "data-sampler": points.samplers[dot.sampler] }, ...marks, ...markOf(look, left, top));
    const tell = () => tip(node, dot, lines, left, top);
    node.addEventListener("pointerenter", tell);
    node.addEventListener("focus", tell);
    for (const end of ["pointerleave", "blur"]) node.addEventListener(end, () => node.closest("figure")?.querySelector(".tip")?.remove());
    node.addEventListener("keydown", (event) => {
      if (event.key === "Enter" && dot.cell !== null) location.hash = address({ cell: dot.cell });
    });
    parts.push(node);
  });
  return svgNode("g", { "data-model": modelOf(curve.line), "data-line": curve.line }, svgNode("g", { class: `s${look.colour}` }, ...parts));
}

function levelOf(level, up, width) {
  const look = points.lines[level.line];
  const [from, to] = [MARGIN.left, width - MARGIN.right];
  const parts = [];
  const [score, low, high] = level.score;
  if (low !== null) parts.push(svgNode("path", { class: "area", d: `M${from},${up.at(low)}H${to}V${up.at(high)}H${from}Z` }));
  parts.push(svgNode("path", { class: "line", d: `M${from},${up.at(score)}H${to}`, "stroke-dasharray": DASHES[look.dash] || null }));
  return svgNode("g", { "data-model": modelOf(level.line) }, svgNode("g", { class: `s${look.colour}` }, ...parts));
}

/** The boxes that a curve's marks, intervals and lines take. */
function marksOf(curve, across, up) {
  const at = curve.dots.map((dot) => [across.at(dot.x), up.at(dot.y)]);
  const marks = at.map(([x, y]) => ({ x: x - 7, y: y - 7, w: 14, h: 14 }));
  const bars = curve.dots.filter((dot) => dot.bounds[0] !== null).map((dot) => ({ x: across.at(dot.x) - 2, y: up.at(dot.bounds[1]), w: 4, h: up.at(dot.bounds[0]) - up.at(dot.bounds[1]) }));
  const lines = at.slice(1).flatMap(([x, y], i) => {
    const [fromX, fromY] = at[i];
    const count = Math.ceil(Math.hypot(x - fromX, y - fromY) / 8);
    return Array.from({ length: count }, (_, part) => ({ x: fromX + ((x - fromX) * part) / count - 2, y: fromY + ((y - fromY) * part) / count - 2, w: 4, h: 4 }));
  });
  return [...marks, ...bars, ...lines];
}

/** Names beside the last point of each curve where there is room, and a ring with its sampler's name around what each model's card names. */
function labels(figure, curves, across, up, taken, { width, bottom }, where) {
  const nodes = [];
  const free = (box) => box.x > MARGIN.left && box.x + box.w < width && box.y > 2 && box.y + box.h < bottom && isFree(box, taken);
  const write = (text, x, y, kind) => {
    const w = (kind.includes("chosen") ? 7.5 : 6.6) * text.length;
    const [beside, rows] = [[x + 12, x - 12 - w, x - 30 - w, x - w / 2], [y - 7, y + 13, y - 27, y + 33, y - 47]];
    const places = rows.flatMap((top) => beside.map((left) => [left, top]));
    const spot = places.map(([left, top]) => ({ x: left, y: top - 3, w, h: 19 })).find(free);
    if (spot === undefined) return false;
    taken.push(spot);
    nodes.push(svgNode("text", { class: kind, x: spot.x.toFixed(1), y: (spot.y + 14).toFixed(1) }, text));
    return true;
  };
  const several = new Set(curves.map((curve) => points.lines[curve.line].model)).size > 1;
  const best = figure.matches(".first-plot") ? page.chosen[where.task ?? ""] ?? {} : {};
  const named = new Set();
  for (const curve of curves) {
    for (const dot of curve.dots) {
      const [model, sampler] = [modelOf(dot.line), points.samplers[dot.sampler]];
      if (best[model] !== sampler) continue;
      nodes.push(svgNode("circle", { class: "chosen", cx: across.at(dot.x).toFixed(1), cy: up.at(dot.y).toFixed(1), r: 10 }));
      if (write(`${several ? `${model}: ` : ""}use ${sampler}`, across.at(dot.x), up.at(dot.y), "start chosen-name")) named.add(curve.line);
    }
  }
  for (const curve of curves) {
    if (named.has(curve.line)) continue;
    const last = curve.dots[curve.dots.length - 1];
    const look = points.lines[curve.line];
    const short = several ? look.name.replace(" · ", " ") : look.name;
    write(short.length > 34 ? `${short.slice(0, 32)} …` : short, across.at(last.x), up.at(last.y), `start name s${look.colour}`);
  }
  return nodes;
}

/** The figures of a point, beside its mark. */
function tip(node, dot, lines, left, top) {
  const figure = node.closest("figure");
  const svg = figure.querySelector("svg");
  figure.querySelector(".tip")?.remove();
  const box = el("div", { class: "tip" }, el("b", {}, plain(nameOfDot(dot))), ...lines.map((line) => el("span", {}, line)), dot.cell === null ? null : el("i", {}, "click: its answers"));
  figure.append(box);
  const scale = svg.clientWidth / svg.viewBox.baseVal.width || 1;
  const right = left * scale + 14 + box.offsetWidth > figure.clientWidth;
  box.style.left = `${Math.max(0, right ? left * scale - 14 - box.offsetWidth : left * scale + 14)}px`;
  const above = svg.getBoundingClientRect().top - figure.getBoundingClientRect().top;
  box.style.top = `${above + Math.max(0, top * scale - box.offsetHeight / 2)}px`;
}

const keyOf = (look) => svgNode("svg", { viewBox: "-14 -7 28 14", "aria-hidden": "true", class: `s${look.colour}` }, svgNode("path", { class: "line", d: "M-13,0H13", "stroke-dasharray": DASHES[look.dash] || null }), ...markOf(look, 0, 0));

/** The legend: a button per curve, those that don't lead in a fold. */
function legend(figure, curves, levels, where) {
  const focused = document.activeElement?.closest?.("li[data-line]")?.dataset.line;
  const open = figure.querySelector(".legends details")?.open;
  const item = (curve) => {
    const look = points.lines[curve.line];
    const on = isShown(curve, where);
    const button = el("button", { type: "button", "aria-pressed": String(on), onclick: () => switched(curve, !on) }, keyOf(look), " ", plain(look.name));
    return el("li", { "data-line": curve.line }, button);
  };
  const first = curves.filter((curve) => curve.leads);
  const others = curves.filter((curve) => !curve.leads);
  const any = levels.map((level) => el("li", {}, keyOf(points.lines[level.line]), " ", plain(`${points.lines[level.line].name} (any speed)`)));
  const parts = [el("ul", { class: "legend" }, ...first.map(item), ...any)];
  if (others.length) parts.push(el("details", { open: open ?? others.some((curve) => isShown(curve, where)) }, el("summary", {}, `${others.length} more curve${others.length > 1 ? "s" : ""}`), el("ul", { class: "legend" }, ...others.map(item))));
  figure.querySelector(".legends").replaceChildren(...parts);
  for (const list of figure.querySelectorAll("ul.legend")) if (list.querySelector("button")) roving(list, "button");
  if (focused !== undefined) [...figure.querySelectorAll("li[data-line]")].find((one) => one.dataset.line === focused)?.querySelector("button").focus();
}

/** Shows or hides a curve in all plots; the address says so. */
function switched(curve, on) {
  const where = place();
  const without = (name) => (where[name] ?? "").split(".").filter((one) => one && one !== String(curve.line));
  const [off, more] = [without("off"), without("on")];
  if (on !== curve.leads) (on ? more : off).push(String(curve.line));
  note({ off: off.join(".") || null, on: more.join(".") || null });
  drawAll();
}

/** Draws the figures whose folds are open; the others are drawn when theirs are opened. */
function drawAll() {
  if (byId("main").hidden) return;
  for (const figure of document.querySelectorAll("figure.plot")) if (shownNow(figure)) draw(figure);
}

const shownNow = (node) => {
  for (let fold = node.parentElement?.closest("details"); fold; fold = fold.parentElement?.closest("details")) if (!fold.open) return false;
  return true;
};

/** Choosers of both axes and of their scale, for all plots. */
function axisTools() {
  const chooser = (name, label, choices) => {
    const select = el("select", { id: `axis-${name}`, onchange: () => { note({ [name]: select.value === (name === "x" ? points.axes[0]?.key : "score") ? null : select.value }); drawAll(); } },
      ...choices.map((axis) => el("option", { value: axis.key }, axis.label)));
    return el("label", {}, `${label} `, select);
  };
  const linear = el("button", { type: "button", id: "axis-scale", "aria-pressed": "false", onclick: () => {
    note({ scale: place().scale === "linear" ? null : "linear" });
    axesAs(place());
    drawAll();
  } }, "linear axis");
  return el("div", { class: "axes" }, chooser("x", "across", points.axes), chooser("y", "up", [SCORE, ...points.axes]), linear);
}

function axesAs(where) {
  if (byId("axis-x") === null) return;
  const [x, y] = wantedAxes(where);
  byId("axis-x").value = x.key;
  byId("axis-y").value = y.key;
  byId("axis-scale").setAttribute("aria-pressed", String(where.scale === "linear"));
}

function livePlot(figure) {
  figure.append(el("div", { class: "tools" }, takePlot(figure)));
}
