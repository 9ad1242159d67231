// The page's data, as pbcore.report.page.data has them: gzip in base64. Answers are unpacked when the first of their cells is opened.

if (typeof DecompressionStream === "undefined") {
  byId("old").hidden = false;
  return;
}

const page = await unpacked("page");
const points = page.points ?? null; // a comparison has none
const EOS = "<eos>";
const read = new Map(); // number of a cell → promise of its answers
let kept = null; // promise of the answers in this file

/** The data of an element. */
async function unpacked(name) {
  const bytes = Uint8Array.from(atob(byId(name).textContent), (sign) => sign.charCodeAt(0));
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).json();
}

const numberOf = (id) => page.cells.findIndex((cell) => cell.id === id);

/** An answer with what it may lack, its score, and a token for each position of the canvas (null if they were not recorded). */
function complete(cell, answer) {
  const whole = { seed: 0, nfe: null, scores: [], near: null, tokens: null, steps: [], confidences: [], why: "", matches: [], former: [], cut: 0, served: "", kinds: [], blame: null, ...answer };
  whole.score = whole.scores[cell.metrics.indexOf(cell.headline)] ?? null;
  whole.pieces = whole.tokens;
  if (whole.tokens !== null) { // the last one repeats to the end
    const left = Math.max(0, whole.steps.length - whole.tokens.length);
    whole.pieces = [...whole.tokens, ...Array(left).fill(whole.tokens[whole.tokens.length - 1])];
  }
  const rest = answer.blame?.rest;
  if (rest !== undefined) whole.blame = { ...answer.blame, rest: complete(cell, { index: answer.index, seed: whole.seed, ...rest }) };
  return whole;
}

/** Whether each answer of a cell is wrong (null: not scored), in the order of seeds and samples; also where its text is not in this file. */
function verdictsOf(cell) {
  const wrong = { 0: false, 1: true, "-": null };
  return cell.verdicts.flatMap(([seed, indices, signs]) =>
    Array.from(signs, (sign, i) => ({ index: indices === 0 ? i : indices[i], seed, wrong: wrong[sign] })));
}

/** The run's folder in a command, from wherever this file is read. */
function runFolder() {
  const served = document.querySelector("meta[name=folder]")?.content;
  const run = served ?? (location.protocol === "file:" ? decodeURIComponent(new URL(page.where, location.href).pathname).replace(/(?<=.)\/$/, "") : page.where);
  return /^[\w/.,@%+=:-]+$/.test(run) ? run : `'${run.replaceAll("'", "'\\''")}'`;
}

/** The command that shows all answers. */
const hint = () => `pbcore view ${runFolder()}`;

/** The command that finds the step that broke each wrong answer of a cell's run; a page of several runs doesn't know in which folder that is. */
const blameHint = (cell) => `pbcore blame ${cell.side || /\s|\.json$/.test(page.where) ? "RUN" : runFolder()}`;

/** A cell's answers and questions; from the page, or from the server that shows it. */
function answersOf(number) {
  if (!read.has(number)) read.set(number, load(number));
  return read.get(number);
}

async function load(number) {
  const cell = page.cells[number];
  let data;
  if (byId("answers") === null) {
    const reply = await fetch(`samples/${number}.json${location.search}`);
    if (!reply.ok) throw new Error(`the server answered ${reply.status}: ${await reply.text()}`);
    data = await reply.json();
  } else {
    kept ??= unpacked("answers");
    const { answers, questions } = await kept;
    data = { answers: answers[number], questions: questions[cell.questions] ?? null };
  }
  return { answers: data.answers.map((answer) => complete(cell, answer)), questions: data.questions };
}

/** The question of a sample: prompt, one right answer, whether it is the only one; null if it was not kept. */
function questionOf(questions, index) {
  const own = questions === null ? undefined : questions.of[index];
  if (own === undefined) return null;
  return { prompt: questions.before + own.prompt + questions.after, answer: own.label ?? null, only: own.only, cut: own.cut ?? 0, shots: questions.shots };
}
