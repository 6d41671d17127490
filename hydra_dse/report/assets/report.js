"use strict";
// Selection of designs in charts and tables, sorting and filtering, and the theme.  All text goes through
// textContent: nothing of the data is ever read as markup.
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const picks = [...document.querySelectorAll(".pick")];
  const rows = [...document.querySelectorAll("tr[data-design]")];

  function make(tag, text, className) {
    const element = document.createElement(tag);
    if (text !== undefined) element.textContent = text;
    if (className) element.className = className;
    return element;
  }

  // The panel of details.
  function cell(text, kind, scope) {
    const [first, ...rest] = text.split("\n");
    const element = make(scope ? "th" : "td", first, kind);
    if (scope) element.scope = scope;
    for (const line of rest) if (line) element.append(make("small", line));
    return element;
  }

  function showDetails(design) {
    const detail = data.designs[design];
    const panel = document.getElementById("details");
    if (!panel || !detail) return;
    panel.classList.toggle("recommended", design === data.recommended);
    const head = panel.querySelector(".title");
    head.textContent = detail.title;
    panel.querySelector(".said").textContent = detail.metrics.slice(0, data.objectives).map(
      ([name, unit, estimate, simulated]) => `${name} ${estimate.split("\n")[0]} ${unit} estimated` +
        (simulated ? `, ${simulated.split("\n")[0]} ${unit} simulated` : "")).join("; ");
    const list = panel.querySelector("dl");
    list.replaceChildren(...detail.parameters.map(([name, value]) => {
      const pair = make("div");
      pair.append(make("dt", name), make("dd", value));
      return pair;
    }));
    const body = panel.querySelector("tbody");
    body.replaceChildren(...detail.metrics.map((values) => {
      const row = make("tr");
      row.append(...values.map((text, index) => cell(text, index < 2 ? "text" : "", index === 0 ? "row" : "")));
      return row;
    }));
  }

  function select(design) {
    for (const pick of picks) pick.setAttribute("aria-selected", String(pick.dataset.design === design));
    for (const row of rows) {
      const chosen = row.dataset.design === design;
      row.setAttribute("aria-selected", String(chosen));
      const button = row.querySelector("button");
      if (button) button.setAttribute("aria-pressed", String(chosen));
    }
    showDetails(design);
  }

  // Charts: one stop of the tab key for each group of points or marks, arrow keys between them.
  function tipOf(figure) {
    let tip = figure.querySelector(".tip");
    if (!tip) {
      tip = make("div", "", "tip");
      tip.setAttribute("aria-hidden", "true");
      figure.append(tip);
    }
    return tip;
  }

  function showTip(pick) {
    const figure = pick.closest("figure"), tip = tipOf(figure);
    tip.textContent = pick.getAttribute("aria-label");
    tip.hidden = false;
    const box = figure.getBoundingClientRect(), at = pick.getBoundingClientRect();
    const left = Math.min(at.right - box.left + 4, Math.max(0, box.width - tip.offsetWidth));
    tip.style.left = `${left}px`;
    // Above where it would lie below the window, as after the focus has moved the page just so far.
    const above = at.bottom + 4 + tip.offsetHeight > innerHeight && at.top - 4 - tip.offsetHeight >= 0;
    tip.style.top = above ? `${at.top - box.top - 4 - tip.offsetHeight}px` : `${at.bottom - box.top + 4}px`;
  }

  function hideTip(pick) {
    tipOf(pick.closest("figure")).hidden = true;
  }

  function move(points, from, step) {
    const next = points[Math.min(Math.max(from + step, 0), points.length - 1)];
    points.forEach((point) => { point.tabIndex = point === next ? 0 : -1; });
    next.focus();
  }

  // How far the nearest of the marks below (or above) is in their order; 0 where there is none.
  function stepDown(marks, from, sign) {
    const here = marks[from].dataset;
    let best = from, least = Infinity;
    marks.forEach((mark, index) => {
      const down = sign * (mark.dataset.y - here.y), aside = Math.abs(mark.dataset.x - here.x);
      if (down > 1 && down + 2 * aside < least) [best, least] = [index, down + 2 * aside];
    });
    return best - from;
  }

  function onKey(event, points, index) {
    const steps = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1, Home: -points.length, End: points.length };
    const flat = points[index].classList.contains("mark");
    const vertical = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (flat && vertical) move(points, index, stepDown(points, index, vertical));
    else if (event.key in steps) move(points, index, steps[event.key]);
    else if (!flat && (event.key === "Enter" || event.key === " ")) select(points[index].dataset.design);
    else return;
    event.preventDefault();
  }

  function listen(points) {
    if (points.length) points[0].tabIndex = 0;
    points.forEach((pick, index) => {
      pick.querySelector("title")?.remove();
      pick.addEventListener("keydown", (event) => onKey(event, points, index));
      pick.addEventListener("pointerenter", () => showTip(pick));
      pick.addEventListener("pointerleave", () => hideTip(pick));
      pick.addEventListener("focus", () => {
        // At once: while a page glides to a part, where the part is says nothing of where its words will be.
        pick.scrollIntoView({ block: "nearest", inline: "nearest", behavior: "instant" });
        showTip(pick);
      });
      pick.addEventListener("blur", () => hideTip(pick));
    });
  }

  for (const group of document.querySelectorAll(".points")) {
    listen([...group.querySelectorAll(".pick")].sort((a, b) => a.dataset.x - b.dataset.x));
  }
  for (const group of document.querySelectorAll(".marks")) {
    listen([...group.querySelectorAll(".mark")].sort((a, b) => a.dataset.order - b.dataset.order));
  }
  for (const pick of picks) pick.addEventListener("click", () => select(pick.dataset.design));
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape") for (const tip of document.querySelectorAll(".tip")) tip.hidden = true;
  });

  // Tables of designs: a button selects a row, a heading sorts, words filter.
  for (const row of rows) {
    const head = row.querySelector("th");
    const button = make("button", head.textContent);
    button.type = "button";
    button.setAttribute("aria-pressed", "false");
    button.addEventListener("click", () => select(row.dataset.design));
    head.replaceChildren(button);
  }

  function keyOf(row, column) {
    const found = row.cells[column];
    const value = found.dataset.order;
    if (value === undefined) return found.textContent;
    return value === "" ? NaN : isNaN(value) ? value : Number(value);
  }

  function compare(a, b) {
    const missing = [a, b].map((value) => typeof value === "number" && isNaN(value));
    if (missing[0] || missing[1]) return missing[0] - missing[1];
    return typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b));
  }

  function sortBy(table, head) {
    const column = head.cellIndex;
    const sign = head.getAttribute("aria-sort") === "ascending" ? -1 : 1;
    for (const other of head.parentElement.cells) other.setAttribute("aria-sort", "none");
    head.setAttribute("aria-sort", sign > 0 ? "ascending" : "descending");
    const sorted = [...table.tBodies[0].rows].map((row) => [keyOf(row, column), row]);
    const lacks = ([key]) => typeof key === "number" && isNaN(key);
    sorted.sort((a, b) => (lacks(a) || lacks(b) ? 1 : sign) * compare(a[0], b[0]));
    table.tBodies[0].append(...sorted.map(([, row]) => row));
  }

  function filter(table, words, count) {
    const wanted = words.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    for (const row of table.tBodies[0].rows) {
      const text = row.textContent.toLowerCase();
      row.hidden = !wanted.every((word) => text.includes(word));
      if (!row.hidden) shown += 1;
    }
    count.textContent = ` ${shown} of ${table.tBodies[0].rows.length} designs shown`;
  }

  document.querySelectorAll("table.designs").forEach((table, index) => {
    for (const head of table.tHead.rows[0].cells) {
      const button = make("button");
      button.type = "button";
      const [name, ...rest] = head.childNodes;
      button.append(name, make("span", undefined, "sign"), ...rest);
      head.append(button);
      head.setAttribute("aria-sort", "none");
      button.addEventListener("click", () => sortBy(table, head));
    }
    const line = make("div", undefined, "filter");
    const label = make("label", "Show designs with the words ");
    const input = make("input");
    input.type = "search";
    input.id = `filter-${index}`;
    label.htmlFor = input.id;
    const count = make("span");
    count.setAttribute("role", "status");
    input.addEventListener("input", () => filter(table, input.value, count));
    line.append(label, input, count);
    table.closest(".scroll").before(line);
  });

  // Theme: as the system has it, until the reader says otherwise.
  const theme = make("button", "Change to dark or light", "theme");
  theme.type = "button";
  theme.addEventListener("click", () => {
    const now = document.documentElement.dataset.theme ||
      (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
    document.documentElement.dataset.theme = now === "dark" ? "light" : "dark";
  });
  document.querySelector("header").prepend(theme);

  if (data.recommended) select(data.recommended);
})();
