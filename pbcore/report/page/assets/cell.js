// A cell: its facts, its answers as a table, and one answer with prompt, label, scores and film.

const PAGE = 200; // answers shown at once
const verdict = (cell, answer) =>
  answer.wrong === null ? "not scored" : (answer.wrong ? "✗ wrong" : "✓ right") + (cell.headline === "accuracy" ? "" : ` by ${cell.headline}`);
const shortTask = (task) => page.cells.find((cell) => cell.task === task)?.name ?? task;
const nameOf = (cell) => `${cell.side ? cell.side + ": " : ""}${cell.model} · ${cell.sampler}`;

/** Where the page is: the part of the address after `#`, e.g. cell=tiny/shuffle/confidence-k2&sample=3&with=… */
function place() {
  const found = {};
  for (const part of location.hash.slice(1).split("&")) {
    const at = part.indexOf("=");
    if (at < 0) continue;
    try {
      found[part.slice(0, at)] = decodeURIComponent(part.slice(at + 1));
    } catch {
      continue; // not an address of this page
    }
  }
  return found;
}

function address(changes) {
  const parts = { ...place(), ...changes };
  return "#" + Object.entries(parts).filter(([, value]) => value !== null && value !== undefined && value !== "")
    .map(([name, value]) => `${name}=${encodeURIComponent(value).replaceAll("%2F", "/").replaceAll("%3A", ":")}`).join("&");
}

const backLink = () => el("p", {}, el("a", { href: address({ cell: null, sample: null, seed: null, with: null, only: null, step: null, sort: null, answers: null, index: null, q: null, kind: null, right: null, wrong: null }) || "#" }, "← all cells"));

/** The title and the nodes of a cell's view, as `where` says. */
async function cellView(where) {
  const number = numberOf(where.cell);
  if (number < 0) return ["No answers", [backLink(), el("h2", { tabindex: -1 }, "No answers"), el("p", {}, "This page has no answers of cell ", plain(where.cell), ": it is of another run, or its results came without them.")]];
  const cell = page.cells[number];
  const title = `${shortTask(cell.task)} · ${nameOf(cell)}`;
  const head = [backLink(), el("h2", { tabindex: -1 }, plain(title)), where.sample === undefined ? cellFacts(cell) : null];
  let data;
  try {
    data = await answersOf(number);
  } catch (error) {
    return [title, [...head, el("p", { class: "note" }, plain(`The answers could not be read: ${error.message}`))]];
  }
  if (where.sample !== undefined) return [`sample ${where.sample} · ${title}`, [...head, ...(await answerView(number, data, where))]];
  return [title, [...head, leftOut(cell, data), answerTable(cell, data, where)]];
}

function cellFacts(cell) {
  const rows = [...Object.entries(cell.scores).map(([name, [mean, low, high]]) => [name, `${percent(mean)} % [${fixed(100 * low, 0)}–${fixed(100 * high, 0)}]`]), ...cell.facts];
  return el("dl", { class: "facts" }, ...rows.map(([name, value]) => el("div", {}, el("dt", {}, plain(name)), el("dd", {}, plain(String(value))))));
}

function leftOut(cell, data) {
  if (data.answers.length >= cell.n) return null;
  const none = data.answers.length === 0 && cell.n === 0;
  return el("p", { class: "note" }, none
    ? "No answers: the cell could not be run, or its results came without samples."
    : `${data.answers.length} of ${cell.n} answers are in this file, wrong ones first. All are shown by: `, none ? null : el("code", {}, plain(hint())));
}

/** Wrong answers first, then those without a score, then right ones, each by seed and index. */
const wrongFirst = (answers) => {
  const rank = (answer) => (answer.wrong ? 0 : answer.wrong === null ? 1 : 2);
  return [...answers].sort((a, b) => rank(a) - rank(b));
};

/** Which answers are listed: all, only wrong ones, only those that flip between two runs. */
function listed(cell, answers, only) {
  const ordered = wrongFirst(answers);
  if (only === "wrong") return ordered.filter((answer) => answer.wrong);
  if (only === "flips" && cell.flips) return ordered.filter((answer) => cell.flips.worse.includes(answer.index) || cell.flips.better.includes(answer.index));
  return ordered;
}

/** How many answers a choice lists; where not all of them are in this file, of how many. */
function countOf(cell, answers, only) {
  const [here, all] = [answers, verdictsOf(cell)].map((some) => listed(cell, some, only).length);
  return here === all ? `${all}` : `${here} of ${all}`;
}

function choices(cell, answers, where) {
  const options = [["", `all (${countOf(cell, answers, "")})`], ["wrong", `only wrong (${countOf(cell, answers, "wrong")})`]];
  if (cell.flips) options.push(["flips", `only flips (${countOf(cell, answers, "flips")})`]);
  const select = el("select", { onchange: () => { location.hash = address({ only: select.value }); } },
    ...options.map(([value, text]) => el("option", { value, selected: (where.only || "") === value }, text)));
  return el("label", {}, "answers: ", select);
}

const flip = (cell, answer) => (!cell.flips ? "" : cell.flips.worse.includes(answer.index) ? "↓ got worse" : cell.flips.better.includes(answer.index) ? "↑ got better" : "");

/** Cells with the step that broke an answer, and the verdict of its blame where `blamed`. */
const brokenCells = (answer, blamed) => [
  el("td", { class: "num", "data-v": answer.blame?.step ?? "", "data-label": "step" }, String(answer.blame?.step ?? "")),
  ...(blamed ? [el("td", {}, answer.blame?.verdict ?? "")] : [])];
const brokenHeads = (blamed) => ["#step", ...(blamed ? ["blame"] : [])];

/** A table of answers that shows `PAGE` of its `rows` at a time, heads of numbers after a `#`; `show` adds the next, after rows have come. */
function paged(caption, heads, rows, line) {
  const body = el("tbody");
  const more = el("button", { type: "button", hidden: true, onclick: () => show() });
  const show = () => {
    body.append(...rows.slice(body.children.length, body.children.length + PAGE).map(line));
    more.hidden = body.children.length >= rows.length;
    more.textContent = `show more (${(rows.length - body.children.length).toLocaleString("en")} left)`;
  };
  const table = el("table", { class: "sortable answers" }, el("caption", {}, caption),
    el("thead", {}, el("tr", {}, ...heads.map((head) => el("th", { scope: "col", class: head.startsWith("#") ? "num" : null }, plain(head.replace("#", "")))))), body);
  sortable(table, "v", () => { while (body.children.length < rows.length) show(); });
  return { body, show, table, nodes: [el("div", { class: "wide", role: "region", tabindex: 0, "aria-label": "answers" }, table), more, takeTable(table)] };
}

const scoreCells = (answer) => [
  el("td", { class: "num", "data-v": answer.score ?? "", "data-label": "score %" }, percent(answer.score)),
  el("td", { class: "num", "data-v": answer.nfe ?? "", "data-label": "NFE" }, answer.nfe === null ? "–" : String(answer.nfe))];

function answerTable(cell, data, where) {
  const seeds = new Set(data.answers.map((answer) => answer.seed)).size > 1;
  const line = (answer) => el("tr", {},
    el("td", { class: "num", "data-v": answer.index }, el("a", { href: address({ sort: null, sample: answer.index, seed: seeds ? answer.seed : null }) }, `sample ${answer.index}${seeds ? `, seed ${answer.seed}` : ""}`)),
    el("td", { class: answer.wrong ? "bad" : "" }, verdict(cell, answer)),
    ...(cell.flips ? [el("td", {}, flip(cell, answer))] : []),
    ...scoreCells(answer),
    el("td", { class: "text" }, short(answer.text, 120)),
    el("td", { class: "text" }, short(answer.why, 160)),
    ...brokenCells(answer, cell.blamed));
  const heads = ["#sample", "verdict", ...(cell.flips ? ["A against B"] : []), `#${cell.headline} %`, "#NFE", "answer", "what is wrong", ...brokenHeads(cell.blamed)];
  const { show, nodes } = paged("answers", heads, listed(cell, data.answers, where.only), line);
  show();
  return el("div", {}, choices(cell, data.answers, where), ...nodes);
}

/** Cells whose answers to the same sample can stand beside this one's. */
function partners(number) {
  const own = page.cells[number];
  return page.cells.map((cell, i) => [cell, i]).filter(([cell, i]) => i !== number && cell.task === own.task && cell.n > 0 && (cell.questions === own.questions || own.pair === i));
}

async function answerView(number, data, where) {
  const cell = page.cells[number];
  const same = (answer) => answer.index === Number(where.sample) && (where.seed === undefined || answer.seed === Number(where.seed));
  const rows = listed(cell, data.answers, where.only);
  const answer = data.answers.find(same);
  const list = el("a", { href: address({ sample: null, seed: null, with: null, step: null }) }, "all answers of this cell");
  if (answer === undefined) return [el("p", { class: "note" }, "Sample ", plain(where.sample), " of this cell is not in this file. ", ...(verdictsOf(cell).some(same) ? ["It is shown by: ", el("code", {}, plain(hint())), ". "] : []), list)];
  const at = rows.indexOf(answer);
  const asked = questionOf(data.questions, answer.index);
  const go = (other, text) => (other === undefined ? el("span", { class: "off" }, text) : el("a", { href: address({ step: null, sample: other.index, seed: where.seed === undefined ? null : other.seed }) }, text));
  const [other, otherCell, otherName] = await partner(number, where, answer);
  const shots = [{ answer, title: nameOf(cell) }, ...(other ? [{ answer: other, title: otherName }] : [])];
  const filmed = shots.filter((shot) => shot.answer.pieces !== null && shot.answer.steps.length);
  const nodes = [
    el("nav", { class: "steps-of", "aria-label": "answers" }, go(rows[at - 1], "‹ previous"), " ", list, " ", go(rows[at + 1], "next ›"), " ", choices(cell, data.answers, where)),
    el("h3", { tabindex: -1 }, `sample ${answer.index}${where.seed === undefined ? "" : `, seed ${answer.seed}`}: `, plain(verdict(cell, answer)), flip(cell, answer) ? ` (${flip(cell, answer)})` : ""),
    questionPart(asked),
    blamePart(cell, answer, where),
    filmed.length ? player(filmed, where.step ?? answer.blame?.step) : null,
    filmed.length < shots.length ? el("p", { class: "note" }, filmed.length ? "One of the two has no film: " : "No film: ", answer.served ? "a model behind a server does not tell its steps." : "this record holds no tokens with their steps.") : null,
    beside(number, where, answer),
    el("div", { class: "shots" }, ...shots.map((shot, i) => answerPart(i ? otherCell : cell, shot, shots.length > 1, asked))),
    el("p", {}, el("a", { href: address({ answers: "all", cell: null, sample: null, seed: null, with: null, only: null, step: null, task: cell.task, index: answer.index }) }, "this question under all samplers")),
    el("details", {}, el("summary", {}, "figures of this cell"), cellFacts(cell)),
  ];
  return nodes;
}

const REST = "one-at-a-time"; // beside an answer: how it ends from before the step that broke it

/** What broke an answer, with a button for the film of how it would have gone on, or the command that finds it. */
function blamePart(cell, answer, where) {
  const { lines, rest } = answer.blame ?? { lines: [], rest: null };
  const offer = answer.wrong && cell.traceable ? el("p", { class: "note" }, el("code", {}, plain(blameHint(cell))), " finds the step that broke it, and whether tokens that were revealed together are to blame, or the model.") : null;
  if (!lines.length && offer === null) return null;
  const shown = where.with === REST;
  const button = !rest ? null : el("button", { type: "button", onclick: () => { location.hash = address({ with: shown ? null : REST }); } }, shown ? "take it away" : "▶ beside it");
  return el("div", { class: "blame" }, ...lines.map((line, i) => el("p", {}, plain(line), i === lines.length - 1 && button ? " " : "", i === lines.length - 1 ? button : null)), offer);
}

/** The answer that stands beside, with its cell and its name: of the cell that the address names, or in a comparison the other run's. */
async function partner(number, where, answer) {
  const cell = page.cells[number];
  if (where.with === REST && answer.blame?.rest) return [answer.blame.rest, cell, "one token at a time"];
  const found = where.with !== undefined ? numberOf(where.with) : cell.pair ?? -1;
  if (found < 0 || found === number) return [null, null, ""];
  const data = await answersOf(found);
  const other = data.answers.find((one) => one.index === answer.index && one.seed === answer.seed) || data.answers.find((one) => one.index === answer.index);
  return [other || null, page.cells[found], nameOf(page.cells[found])];
}

function beside(number, where, answer) {
  const cells = partners(number);
  if (!cells.length) return null;
  const shown = where.with ?? (page.cells[number].pair === undefined ? "" : page.cells[page.cells[number].pair].id);
  const select = el("select", { onchange: () => { location.hash = address({ with: select.value || (page.cells[number].pair === undefined ? null : "-") }); } },
    el("option", { value: "" }, "nothing"), ...cells.map(([cell]) => el("option", { value: cell.id, selected: cell.id === shown }, nameOf(cell).slice(0, 80))));
  return el("p", {}, el("label", {}, "beside it, on the same sample: ", select));
}

function questionPart(question) {
  if (question === null) return el("p", { class: "note" }, "The prompt was not kept with this run.");
  const label = question.answer === null ? "none" : question.answer;
  return el("dl", { class: "question" },
    el("dt", {}, "prompt", question.shots ? ` (after ${question.shots} worked example${question.shots > 1 ? "s" : ""})` : ""), el("dd", {}, el("pre", {}, plain(question.prompt)), cutNote(question.cut)),
    el("dt", {}, "label", question.only ? "" : " (one of several right answers)"), el("dd", {}, el("pre", {}, plain(label))));
}

const cutNote = (length) => (length ? el("p", { class: "note" }, `The first part of ${length.toLocaleString("en")} characters; samples.jsonl of the run has the whole text.`) : null);

function answerPart(cell, { answer, title }, named, asked) {
  const label = asked === null || !answer.wrong ? null : answer.near ?? asked.answer;
  const scores = cell.metrics.map((name, i) => el("li", {}, plain(name.replaceAll("_", " ")), ": ", el("b", {}, `${percent(answer.scores[i])} %`)));
  const rules = answer.matches.map(({ rule, message }) => el("li", {}, el("code", {}, plain(rule)), " ", plain(message)));
  return el("section", {}, named ? el("h4", {}, plain(title), ": ", plain(verdict(cell, answer))) : null,
    el("dl", { class: "question" },
      el("dt", {}, "answer"), el("dd", {}, el("pre", { class: "answer" }, ...underlined(answer)), cutNote(answer.cut), rules.length ? el("ul", { class: "rules" }, ...rules) : null),
      ...(label === null ? [] : [el("dt", {}, asked.only ? "answer beside the label" : answer.near === null ? "answer beside one of several right ones" : "answer beside the nearest of several right ones"), el("dd", {}, el("pre", {}, ...difference(label, answer.text.trim())))]),
      ...(answer.why ? [el("dt", {}, answer.wrong ? "why it is wrong" : "faults that its headline score does not count"), el("dd", {}, plain(answer.why))] : []),
      el("dt", {}, "scores"), el("dd", {}, el("ul", { class: "scores" }, ...scores)),
      ...(answer.nfe === null ? [] : [el("dt", {}, "forwards"), el("dd", {}, String(answer.nfe))]),
      ...(answer.served ? [el("dt", {}, "the server told"), el("dd", {}, el("code", {}, plain(answer.served)))] : [])));
}

/** The answer's text, grammar matches underlined with their rule. */
function underlined(answer) {
  if (!answer.text) return [el("i", {}, "(empty)")];
  if (!answer.matches.length) return [plain(answer.text)];
  const signs = Array.from(answer.text);
  const out = [];
  let from = 0;
  for (const { start, length, rule, message } of [...answer.matches].sort((a, b) => a.start - b.start)) {
    if (start < from) continue;
    out.push(plain(signs.slice(from, start).join("")));
    out.push(el("mark", { title: `${rule}: ${message}` }, plain(signs.slice(start, start + length).join("")), el("sub", {}, plain(rule))));
    from = start + length;
  }
  return [...out, plain(signs.slice(from).join(""))];
}
