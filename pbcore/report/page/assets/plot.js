// A plot: a linear or logarithmic axis, a legend that switches lines, points that tell their figures when pointed at or focused.

const PLOT = { left: 44, right: 12 }; // as in pbcore.report.page.svg

/** Moves what stands at a rate, after the axis has changed. */
function placed(figure, linear) {
  const [low, high, width] = ["low", "high", "width"].map((name) => Number(figure.dataset[name]));
  const inner = width - PLOT.left - PLOT.right - 16;
  const [from, to] = linear ? [0, 2 ** high] : [low, high];
  const x = (rate) => PLOT.left + 8 + (inner * ((linear ? rate : Math.log2(rate)) - from)) / (to - from);
  for (const node of figure.querySelectorAll("[data-x]")) node.setAttribute("transform", `translate(${x(Number(node.dataset.x)).toFixed(1)} 0)`);
  for (const line of figure.querySelectorAll("[data-p]")) {
    line.setAttribute("d", "M" + line.dataset.p.split(" ").map((point) => point.split(",").map(Number)).map(([rate, y]) => `${x(rate).toFixed(1)},${y}`).join("L"));
  }
  let last = -Infinity;
  for (const tick of figure.querySelectorAll(".tick")) {
    const at = x(Number(tick.dataset.x));
    const close = at - last < 24;
    tick.classList.toggle("close", close);
    if (!close) last = at;
  }
}

function livePlot(figure) {
  const svg = figure.querySelector("svg");
  svg.setAttribute("role", "group"); // its points can be focused
  if (figure.clientWidth > 0 && figure.clientWidth < 620 && figure.dataset.width > 460) { // drawn anew for a narrow screen
    figure.dataset.width = 460;
    svg.setAttribute("viewBox", "0 0 460 300");
    svg.querySelector(".axis").setAttribute("x", (PLOT.left + 460 - PLOT.right) / 2);
    placed(figure, false);
  }
  const told = el("output", { class: "told-point" }, "point at a mark, or focus one and use the arrow keys");
  const scale = el("button", { type: "button", "aria-pressed": "false" }, "linear axis");
  scale.addEventListener("click", () => {
    const linear = scale.getAttribute("aria-pressed") !== "true";
    scale.setAttribute("aria-pressed", String(linear));
    placed(figure, linear);
  });
  svg.after(el("div", { class: "tools" }, scale, takePlot(figure, svg), told));
  for (const dot of figure.querySelectorAll(".dot")) {
    const text = dot.querySelector("title").textContent;
    dot.setAttribute("role", dot.dataset.cell === undefined ? "img" : "link");
    dot.setAttribute("aria-label", text);
    const tell = () => told.replaceChildren(plain(text));
    dot.addEventListener("pointerenter", tell);
    dot.addEventListener("focus", tell);
    dot.addEventListener("keydown", (event) => {
      if (event.key === "Enter" && dot.dataset.cell !== undefined) location.hash = address({ cell: dot.dataset.cell });
    });
  }
  roving(svg, ".dot");
  for (const entry of figure.querySelectorAll("li[data-line]")) {
    const lines = [...svg.querySelectorAll("[data-line]")].filter((line) => line.dataset.line === entry.dataset.line);
    const button = el("button", { type: "button", "aria-pressed": String(!lines.some((line) => line.classList.contains("rest"))) });
    button.append(...entry.childNodes);
    entry.append(button);
    button.addEventListener("click", () => {
      const on = button.getAttribute("aria-pressed") !== "true";
      button.setAttribute("aria-pressed", String(on));
      for (const line of lines) line.classList.toggle("rest", !on);
    });
  }
  for (const list of figure.querySelectorAll("ul.legend")) roving(list, "button");
}
