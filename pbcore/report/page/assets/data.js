// The page's data, packed by pbcore.report.page.data: answers are read when their cell is opened.

const page = JSON.parse(byId("page").textContent);
const DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
const EOS = "<eos>";
const read = new Map(); // number of a cell → promise of its answers

const numberOf = (id) => page.cells.findIndex((cell) => cell.id === id);

function steps(packed) {
  return typeof packed === "string" ? Array.from(packed, (sign) => (sign === "-" ? -1 : DIGITS.indexOf(sign))) : packed;
}

const twoDigits = (text, at) => DIGITS.indexOf(text[at]) * 62 + DIGITS.indexOf(text[at + 1]);

function confidences(packed) {
  const out = [];
  for (let i = 0; i < packed.length; i += packed[i] === "!" ? 1 : 2) {
    out.push(packed[i] === "!" ? 1 : twoDigits(packed, i) / (62 * 62 - 1));
  }
  return out;
}

function tokens(packed, texts) {
  const out = [];
  for (let i = 0; i < packed.length; i += 2) {
    let number = 0;
    if (packed[i] === ".") {
      number = twoDigits(packed, i + 1) * 62 * 62;
      i += 3;
    }
    out.push(texts[number + twoDigits(packed, i)]);
  }
  return out;
}

/** An answer with its tokens as texts, one per position of the canvas (null if they were not recorded). */
function unpacked(cell, packed, texts) {
  const when = steps(packed.steps ?? "");
  let pieces = packed.tokens === undefined ? null : tokens(packed.tokens, texts);
  let text = packed.text;
  if (pieces !== null) {
    const end = pieces.indexOf(EOS);
    text ??= pieces.slice(0, end < 0 ? undefined : end).join("");
    pieces = pieces.concat(Array(Math.max(0, when.length - pieces.length)).fill(pieces[pieces.length - 1]));
  }
  const score = packed.scores[cell.metrics.indexOf(cell.headline)];
  const wrong = score === null || score === undefined ? null : cell.graded ? score === 0 : score < 1;
  return {
    index: packed.index,
    seed: packed.seed ?? 0,
    nfe: packed.nfe ?? null,
    scores: packed.scores,
    score,
    wrong,
    text,
    pieces,
    steps: when,
    confidences: confidences(packed.confidences ?? ""),
    why: packed.why ?? "",
    matches: packed.matches ?? [],
    former: (packed.former ?? []).map((token) => ({ ...token, text: texts[token.token] })),
    cut: packed.cut ?? 0,
    served: packed.served ?? "",
    kinds: (packed.kinds ?? []).map((number) => texts[number]),
    blame: packed.blame === undefined ? null : { ...packed.blame, rest: rest(cell, packed, texts) },
  };
}

/** How a wrong answer goes on one token at a time from before the step that broke it, as an answer; null where that isn't known. */
function rest(cell, packed, texts) {
  if (packed.blame.rest === undefined) return null;
  const right = cell.headline === "grammar" ? null : 1;
  return unpacked(cell, { index: packed.index, seed: packed.seed, scores: cell.metrics.map((name) => (name === cell.headline ? right : null)), ...packed.blame.rest }, texts);
}

/** Whether each answer of a cell is wrong (null: not scored), in the order of seeds and samples; also where its text is not in this file. */
function verdictsOf(cell) {
  const wrong = { 0: false, 1: true, "-": null };
  return cell.verdicts.flatMap(([seed, indices, signs]) =>
    Array.from(signs, (sign, i) => ({ index: indices === 0 ? i : indices[i], seed, wrong: wrong[sign] })));
}

/** The command that shows all answers, from wherever this file is read. */
function hint() {
  const run = location.protocol === "file:" ? decodeURIComponent(new URL(page.where, location.href).pathname).replace(/(?<=.)\/$/, "") : page.where;
  return `pbcore view ${/^[\w/.,@%+=:-]+$/.test(run) ? run : `'${run.replaceAll("'", "'\\''")}'`}`;
}

/** A cell's answers and questions; from the page, or from the server that shows it. */
function answersOf(number) {
  if (!read.has(number)) read.set(number, load(number));
  return read.get(number);
}

/** The answers of a cell, which the page holds by key; 0 stands where an answer lacks one. */
function answersIn(columns) {
  const keys = Object.keys(columns);
  const always = ["index", "seed", "nfe"];
  return (columns.index ?? []).map((_, i) => Object.fromEntries(keys.filter((key) => columns[key][i] !== 0 || always.includes(key)).map((key) => [key, columns[key][i]])));
}

async function load(number) {
  const cell = page.cells[number];
  if (page.remote) {
    const reply = await fetch(`samples/${number}.json`);
    if (!reply.ok) throw new Error(`the server answered ${reply.status}: ${await reply.text()}`);
    const data = await reply.json();
    return { answers: answersIn(data.answers).map((one) => unpacked(cell, one, data.tokens)), questions: data.questions };
  }
  const part = byId(`s${number}`);
  const answers = part === null ? [] : answersIn(JSON.parse(part.textContent));
  return { answers: answers.map((one) => unpacked(cell, one, page.tokens)), questions: page.questions[cell.questions] || null };
}

/** The question of a sample: prompt, one right answer, whether it is the only one; null if it was not kept. */
function questionOf(questions, index) {
  const own = questions === null ? undefined : questions.of[index];
  if (own === undefined) return null;
  return { prompt: questions.before + own.prompt + questions.after, answer: own.label ?? null, only: own.only, cut: own.cut ?? 0, shots: questions.shots };
}
