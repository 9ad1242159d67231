// The decoding as a film: canvases of one or two answers under one set of controls.

let films = 0;

/** What stands at each position after `step` steps: {text, step, confidence, gone} or null for a mask. */
function canvasAfter(answer, step) {
  const shown = answer.pieces.map((text, place) => {
    const at = answer.steps.length ? answer.steps[place] : -1;
    return at < step ? { text, step: at, confidence: answer.confidences[place] } : null;
  });
  for (const one of answer.former) {
    if (one.step < step && step <= one.until) shown[one.place] = { text: one.text, step: one.step, confidence: one.confidence, leaves: one.until };
  }
  return shown;
}

const lengthOf = (answer) => Math.max(0, ...answer.steps.map((at) => at + 1), ...answer.former.map((one) => one.until + 1));

/** Which grammar match, if any, each token is part of; only if the tokens join to the answer's text. */
function matched(answer) {
  const end = answer.pieces.indexOf(EOS);
  const pieces = end < 0 ? answer.pieces : answer.pieces.slice(0, end);
  const marks = answer.pieces.map(() => null);
  if (!answer.matches.length || pieces.join("") !== answer.text) return marks;
  let from = 0;
  pieces.forEach((piece, place) => {
    const to = from + Array.from(piece).length;
    marks[place] = answer.matches.find(({ start, length }) => from < start + length && start < to) || null;
    from = to;
  });
  return marks;
}

const shownToken = (text) => (text === EOS ? el("i", {}, "end") : text.trim() === "" ? el("i", {}, text === "\n" ? "line" : "space") : plain(text.replace(/\n/g, "⏎")));

/** One answer's canvas; `show(step, from)` draws it, with what the steps after `from` wrote outlined. */
function canvas(answer, title) {
  const total = lengthOf(answer);
  const marks = matched(answer);
  const clash = new Set(answer.blame?.places ?? []);
  const boxes = answer.pieces.map((text, place) => {
    const box = el("li", { class: "tok" }, el("span", { class: "piece" }), el("span", { class: "at" }), el("span", { class: "sure" }, el("span")));
    box.addEventListener("pointerenter", () => together(box.dataset.step));
    box.addEventListener("pointerleave", () => together(null));
    box.dataset.place = place;
    return box;
  });
  const list = el("ol", { class: "canvas", "aria-label": `canvas of ${title}` }, ...boxes);
  const together = (step) => {
    for (const box of boxes) box.classList.toggle("same", step !== null && step !== undefined && box.dataset.step === step && step !== "-1");
  };
  const show = (step, from) => {
    const now = canvasAfter(answer, step);
    const before = step > 0 ? canvasAfter(answer, step - 1) : now;
    boxes.forEach((box, place) => {
      const token = now[place];
      const fresh = token !== null && token.step >= from && token.step < step && step > 0;
      const clashes = token !== null && clash.has(place) && step >= answer.blame.step;
      const lost = token === null && before[place] !== null;
      const [piece, at, sure] = box.children;
      piece.replaceChildren(token === null ? (lost ? el("s", {}, shownToken(before[place].text)) : "▒") : shownToken(token.text));
      at.textContent = token === null ? (lost ? "masked" : "") : token.step < 0 ? "given" : String(token.step + 1);
      const neighbour = place > 0 ? now[place - 1] : null;
      const joined = token !== null && neighbour !== null && token.step === neighbour.step && token.step >= 0;
      box.className = "tok" + (joined ? " joined" : "") + (token === null ? " mask" : "") + (fresh ? " fresh" : "") + (clashes ? " clash" : "") + (lost ? " lost" : "") + (token !== null && token.text === EOS ? " eos" : "") + (token !== null && marks[place] && token.text === answer.pieces[place] ? " match" : "");
      box.dataset.step = token === null ? "" : token.step;
      sure.hidden = token === null || token.confidence === undefined || token.step < 0;
      if (!sure.hidden) sure.firstChild.style.width = `${Math.round(100 * token.confidence)}%`;
      const notes = [`position ${place}`];
      if (token !== null && token.step >= 0) notes.push(`step ${token.step + 1}, confidence ${decimals(token.confidence)}`);
      if (clashes) notes.push("part of the clash");
      if (token !== null && marks[place]) notes.push(`${marks[place].rule}: ${marks[place].message}`);
      box.title = notes.join("; ");
    });
  };
  return { list, show, total, answer };
}

/** What steps change: the tokens that they wrote, masked again, and replaced. */
function changed(answer, step, from = step - 1) {
  const before = canvasAfter(answer, from);
  const now = canvasAfter(answer, step);
  return {
    fresh: now.filter((token) => token !== null && token.step >= from && token.step < step),
    lost: before.filter((token, place) => token !== null && now[place] === null),
    swapped: now.filter((token, place) => token !== null && before[place] !== null && token.step !== before[place].step),
  };
}

/** Whether a step only writes the end of the answer, or comes after its last. */
function isEnd(answer, step) {
  const { fresh, lost, swapped } = changed(answer, step);
  return step > lengthOf(answer) || (fresh.length > 0 && !lost.length && !swapped.length && fresh.every((token) => token.text === EOS));
}

/** What a step does, in words; or several, after `from`. */
function told(answer, step, from = step - 1) {
  if (step === 0) return "all masked";
  const { fresh, lost, swapped } = changed(answer, step, from);
  const name = (token) => (token.text === EOS ? "end" : token.text.replace(/\n/g, "⏎").trim() || "space");
  const ends = fresh.filter((token) => token.text === EOS);
  const parts = fresh.filter((token) => token.text !== EOS).map((token) => `${name(token)} ${decimals(token.confidence)}`);
  if (ends.length) parts.push(`end${ends.length > 1 ? " × " + ends.length : ""} ${decimals(Math.min(...ends.map((one) => one.confidence)))}`);
  const several = step - from > 1;
  const head = several ? `steps ${from + 1} to ${step}: ` : fresh.length > 1 ? `${fresh.length} tokens together: ` : "";
  const notes = [[swapped, "replacing another token"], [lost, "masked again"]].filter(([tokens]) => tokens.length);
  return [parts.length ? head + parts.join(", ") : "nothing revealed", ...notes.map(([tokens, what]) => `${what}: ${tokens.map(name).join(", ")}`)].join("; ");
}

/** A player for one or two answers: [{answer, title}]; `first` is the step to begin at (default: the last). */
function player(shots, first) {
  const number = ++films;
  const parts = shots.map(({ answer, title }) => canvas(answer, title));
  const last = Math.max(...parts.map((part) => part.total));
  let now = last;
  let [timer, noted, box] = [null, null, undefined];
  const line = el("p", { class: "told", "aria-live": "polite" });
  const slider = el("input", { type: "range", min: 0, max: last, value: last, "aria-label": "step", id: `film${number}`, oninput: () => go(Number(slider.value)) });
  const button = (label, about, action) => el("button", { type: "button", "aria-label": about, title: about, onclick: action }, label);
  const play = button("▶ play", "play", () => (timer === null ? start() : stop()));
  const count = el("output", { for: `film${number}` });
  const go = (step, from = step - 1) => {
    now = Math.max(0, Math.min(last, step));
    from = Math.min(from, now - 1);
    slider.value = now;
    slider.setAttribute("aria-valuetext", `step ${now} of ${last}`);
    count.textContent = `step ${now} of ${last}`;
    parts.forEach((part) => part.show(Math.min(now, part.total), Math.min(from, part.total - 1)));
    clearTimeout(noted);
    if (box !== undefined) noted = setTimeout(() => box.isConnected && note({ step: now === last ? null : now }), 150);
    line.replaceChildren(
      ...parts.map((part, i) =>
        el("span", {}, ...(parts.length > 1 ? [el("b", {}, plain(shots[i].title)), ": "] : []), from >= part.total ? "already done" : plain(told(part.answer, Math.min(now, part.total), from)))),
    );
  };
  const stop = () => {
    clearInterval(timer);
    timer = null;
    play.textContent = "▶ play";
    play.setAttribute("aria-label", "play");
  };
  const start = () => {
    if (now >= last) go(0);
    play.textContent = "‖ pause";
    play.setAttribute("aria-label", "pause");
    timer = setInterval(() => {
      if (!box.isConnected) return stop();
      const from = now;
      let next = now + 1;
      while (next < last && ended(next) && ended(next + 1)) next += 1;
      go(next, from);
      if (now >= last) stop();
    }, still() ? 1600 : 700);
  };
  const ended = (step) => parts.every((part) => isEnd(part.answer, step));
  const jump = (step) => () => { stop(); go(step()); };
  const keys = (event) => {
    const moves = { ArrowLeft: now - 1, ArrowRight: now + 1, Home: 0, End: last };
    if (event.key === " " && event.target === box) timer === null ? start() : stop();
    else if (!(event.key in moves) || event.target === slider || event.altKey || event.ctrlKey || event.metaKey) return;
    else { stop(); go(moves[event.key]); }
    event.preventDefault();
  };
  box = el("div", { class: "film", role: "group", tabindex: 0, "aria-label": "film of the decoding; arrow keys step, space plays", onkeydown: keys },
    el("div", { class: "controls" },
      button("|‹", "first step", jump(() => 0)), button("‹", "one step back", jump(() => now - 1)), play,
      button("›", "one step on", jump(() => now + 1)), button("›|", "last step", jump(() => last)), slider, count),
    line,
    el("div", { class: "shots" }, ...parts.map((part, i) => el("section", {}, shots.length > 1 ? el("h4", {}, plain(shots[i].title)) : null, part.list))),
    el("p", { class: "key" }, ...(shots.some(({ answer }) => answer.blame?.places) ? [el("span", { class: "clash" }, "Red and dashed"), ": the tokens that clash. "] : []), "Outlined: revealed together in this step. The number is the step, the bar the confidence. Neighbours that touch were revealed together; point at a token to see all of its step. Wavy underline: a grammar match."),
    ...parts.flatMap((part, i) => [stepList, tokenTable].map((list) => list(part, shots.length > 1 ? shots[i].title : ""))));
  now = Number(first ?? last);
  go(Number.isInteger(now) ? now : last);
  return box;
}

/** All steps as a list, each a group of the tokens that it revealed; made when it is opened. */
function stepList(part, title) {
  const list = el("ol", { class: "steps" });
  const fill = () => {
    for (let step = list.children.length + 1; step <= part.total; step++) list.append(el("li", {}, plain(told(part.answer, step))));
  };
  return el("details", { ontoggle: fill }, el("summary", {}, "All steps as a list", ...(title ? [": ", plain(title)] : [])), list);
}

/** Every token with its step and exact confidence. */
function tokenTable({ answer }, title) {
  const body = el("tbody");
  const fill = () => {
    if (!body.children.length) body.append(...answer.pieces.map((text, at) => el("tr", {}, el("td", { class: "num" }, String(at)), el("td", {}, shownToken(text)),
      ...(answer.steps[at] < 0 ? [el("td", {}, "given"), el("td", {}, "–")] : [el("td", { class: "num" }, String(answer.steps[at] + 1)), el("td", { class: "num" }, fixed(answer.confidences[at], 3))]))));
  };
  const heads = ["position", "token", "step", "confidence"].map((head) => el("th", { scope: "col" }, head));
  return el("details", { ontoggle: fill }, el("summary", {}, "All tokens with their confidences", ...(title ? [": ", plain(title)] : [])),
    el("table", {}, el("thead", {}, el("tr", {}, ...heads)), body));
}
