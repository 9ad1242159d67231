"use strict";
// The list of runs: asks for itself again as cells finish; what is marked stays marked.

const EVERY = 2000; // milliseconds
const marked = () => [...document.querySelectorAll("input[name=run]:checked")].map((box) => box.value);
const buttons = [...document.querySelectorAll("#compare button")];

function show() {
  const count = marked().length;
  for (const button of buttons) button.disabled = count < Number(button.dataset.least) || count > Number(button.dataset.most ?? Infinity);
}

async function refresh() {
  if (document.hidden) return;
  try {
    const reply = await fetch("/");
    const fresh = new DOMParser().parseFromString(await reply.text(), "text/html").getElementById("runs");
    const now = document.getElementById("runs");
    if (fresh === null) return;
    const kept = new Set(marked());
    const focused = document.activeElement?.closest("#runs [href], #runs [value]");
    const name = focused?.getAttribute("href") ?? focused?.getAttribute("value");
    now.replaceChildren(...fresh.children);
    for (const box of now.querySelectorAll("input[name=run]")) box.checked = kept.has(box.value);
    [...now.querySelectorAll("[href], [value]")].find((node) => name !== undefined && (node.getAttribute("href") ?? node.value) === name)?.focus();
    show();
  } catch {
    // the server has ended; what was shown stays
  }
}

document.addEventListener("change", show);
document.addEventListener("visibilitychange", refresh);
setInterval(refresh, EVERY);
show();
