// All answers in one table: search, filters, right under one sampler and wrong under another, differences to the label.

const WORDS = /\s+|[\p{L}\p{N}_]+|[^]/gu;

/** `text` beside `label`: what is only in the answer is inserted, what is only in the label deleted. */
function difference(label, text) {
  const [a, b] = [label, text].map((one) => one.match(WORDS) || []);
  if (a.length * b.length > 250_000) return [plain(text)];
  const row = () => new Uint32Array(b.length + 1);
  const common = [...a.map(row), row()];
  for (let i = a.length - 1; i >= 0; i--) for (let j = b.length - 1; j >= 0; j--) common[i][j] = a[i] === b[j] ? common[i + 1][j + 1] + 1 : Math.max(common[i + 1][j], common[i][j + 1]);
  const parts = [];
  const add = (tag, word) => (parts.length && parts[parts.length - 1][0] === tag ? (parts[parts.length - 1][1] += word) : parts.push([tag, word]));
  let [i, j] = [0, 0];
  while (i < a.length || j < b.length) {
    if (i < a.length && j < b.length && a[i] === b[j]) { add("", a[i++]); j++; }
    else if (j === b.length || (i < a.length && common[i + 1][j] >= common[i][j + 1])) add("del", a[i++]);
    else add("ins", b[j++]);
  }
  return parts.map(([tag, word]) => (tag ? el(tag, {}, plain(word)) : plain(word)));
}

const unique = (values) => [...new Set(values)];

/** Cells that the filters of the page leave. */
const filtered = (where) => page.cells.map((cell, number) => [cell, number]).filter(([cell]) => cell.n > 0 && FILTERS.every((name) => where[name] === undefined || cell[name] === where[name]));

function answersView() {
  const rows = [];
  const count = el("p", { class: "note", "aria-live": "polite" });
  const question = el("div");
  const blamed = page.cells.some((cell) => cell.blamed);
  const heads = ["question", "model", "sampler", "verdict", "#score %", "#NFE", "kind", "answer beside the label", "what is wrong", ...brokenHeads(blamed)];
  const line = ({ cell, answer, label, beside }) => el("tr", {},
    el("td", { "data-v": answer.index }, el("a", { href: address({ task: cell.task, index: answer.index, right: null, wrong: null, q: null, sampler: null, only: null, kind: null }), title: "this question under all samplers" }, plain(`${cell.name} ${answer.index}`))),
    el("td", {}, plain(cell.model)),
    el("td", {}, el("a", { href: address({ cell: cell.id, sample: answer.index, seed: answer.seed || null, with: beside, answers: null, index: null, only: null }) }, el("code", {}, plain(cell.sampler)))),
    el("td", { class: answer.wrong ? "bad" : "" }, verdict(cell, answer)),
    ...scoreCells(answer),
    el("td", {}, short(answer.kinds.join(", "), 60)),
    el("td", { class: "text" }, ...(answer.text === null ? [el("i", {}, "not in this file")] : answer.wrong && label !== null && answer.text.length < 400 && label.length < 400 ? difference(label, answer.text.trim()) : [short(answer.text, 200)])),
    el("td", { class: "text" }, short(answer.why, 160)),
    ...brokenCells(answer, blamed));
  const { body, show, table, nodes } = paged("answers; struck out: only in the label, underlined: only in the answer", heads, rows, line);
  let turn = 0;
  const fill = async () => {
    const [mine, where] = [++turn, place()];
    const cells = filtered(where);
    const needle = (where.q || "").toLowerCase();
    // Two runs stand apart, unless each has one of the two samplers.
    const both = (side) => [where.right, where.wrong].every((name) => page.cells.some((cell) => cell.side === side && cell.sampler === name));
    const apart = where.wrong === undefined || unique(page.cells.map((cell) => cell.side)).some(both);
    const key = (cell, answer) => JSON.stringify([apart ? cell.side : null, cell.model, cell.task, answer.index, answer.seed]);
    const under = new Map(); // of the sampler that is right: question → cell
    const judged = (cell, answer) => (where.right === undefined || under.has(key(cell, answer))) && (where.wrong === undefined || answer.wrong)
      && (where.index === undefined || answer.index === Number(where.index)) && (where.only === undefined || (where.only === "wrong") === answer.wrong);
    const holds = (texts) => texts.some((text) => text.toLowerCase().includes(needle));
    const matches = (cell, answer) => (where.kind === undefined || answer.kinds.includes(where.kind)) && (!needle || holds([answer.text, answer.why, cell.model, cell.sampler]));
    rows.length = 0;
    body.replaceChildren();
    question.replaceChildren();
    let [seen, at, absent, unsearched] = [0, 0, 0, 0];
    const each = async (some, action) => {
      for (const [cell, number] of some) {
        const data = await answersOf(number);
        if (mine !== turn || !table.isConnected && at > 0) return;
        action(cell, data);
        at++;
        if (at % 50 === 0) {
          count.textContent = `reading ${at.toLocaleString("en")} of ${cells.length.toLocaleString("en")} cells …`;
          if (!body.children.length) show();
          await new Promise((done) => setTimeout(done)); // the page stays usable
        }
      }
    };
    for (const [cell] of cells.filter(([one]) => one.sampler === where.right)) {
      for (const answer of verdictsOf(cell)) if (answer.wrong === false) under.set(key(cell, answer), cell.id);
    }
    await each(where.wrong === undefined ? cells : cells.filter(([cell]) => cell.sampler === where.wrong), (cell, data) => {
      const here = new Map(data.answers.map((answer) => [`${answer.seed} ${answer.index}`, answer]));
      for (const told of verdictsOf(cell)) {
        if (where.index !== undefined && told.index !== Number(where.index)) continue;
        seen++;
        if (!judged(cell, told)) continue;
        const known = here.get(`${told.seed} ${told.index}`);
        if (known === undefined && (where.kind !== undefined || (needle && !holds([cell.model, cell.sampler])))) { unsearched++; continue; }
        if (known === undefined) absent++;
        else if (!matches(cell, known)) continue;
        const answer = known ?? { ...told, score: null, nfe: null, text: null, why: "", kinds: [] };
        const asked = questionOf(data.questions, answer.index);
        if (where.index !== undefined && where.task !== undefined && asked !== null && !question.hasChildNodes()) question.append(questionPart(asked));
        rows.push({ cell, answer, label: answer.near ?? asked?.answer ?? null, beside: under.get(key(cell, answer)) });
      }
    });
    if (mine !== turn) return;
    body.replaceChildren();
    const [wrong, other] = [true, false].map((kind) => rows.filter(({ answer }) => Boolean(answer.wrong) === kind));
    rows.splice(0, rows.length, ...wrong, ...other);
    show();
    const number = (count) => count.toLocaleString("en");
    const left = [
      absent > 0 ? `the texts of ${number(absent)} are not in this file` : "",
      unsearched > 0 ? `${number(unsearched)} more could not be searched, as their texts are not in this file` : "",
    ].filter((sentence) => sentence).join("; ");
    const counted = where.index === undefined ? `${number(rows.length)} of ${number(seen)} answers` : `${number(rows.length)} of ${number(seen)} answers to this question`;
    count.replaceChildren(counted, left ? ` (${left}: ${hint()})` : "");
    document.documentElement.dataset.listed = location.hash;
  };
  const where = place();
  const choice = (name, label, values, all = "all") => {
    const select = el("select", { id: `answers-${name}`, onchange: () => { note({ [name]: select.value || null }); fill(); } },
      el("option", { value: "" }, all), ...values.map(([value, text]) => el("option", { value, selected: where[name] === value }, text.slice(0, 80))));
    return el("label", {}, `${label} `, select);
  };
  const samplers = unique(page.cells.map((cell) => cell.sampler)).map((name) => [name, name]);
  let timer = null;
  const search = el("input", { type: "search", id: "answers-q", value: where.q || "", oninput: () => {
    clearTimeout(timer);
    timer = setTimeout(() => { note({ q: search.value || null }); fill(); }, 200);
  } });
  const controls = el("form", { class: "controls", role: "search", onsubmit: (event) => event.preventDefault() },
    el("label", {}, "search ", search), choice("only", "verdict", [["wrong", "wrong"], ["right", "right"]]),
    choice("kind", "kind of failure", unique(page.cells.flatMap((cell) => cell.kinds)).sort().map((kind) => [kind, kind])),
    choice("right", "right under", samplers, "–"), choice("wrong", "wrong under", samplers, "–"),
    where.index === undefined ? null : el("a", { href: address({ index: null }) }, "all questions"));
  const started = fill();
  const title = where.index === undefined ? "All answers" : `Question ${where.index}${where.task === undefined ? "" : ` of ${shortTask(where.task)}`} under all samplers`;
  return [title, [backLink(), el("h2", { tabindex: -1 }, plain(title)), controls, question, count, ...nodes], started];
}
