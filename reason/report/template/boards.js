"use strict";
// The board viewer: a puzzle, its answer after every supervision step, and a slider over the steps.
{
  const data = JSON.parse(document.getElementById("boards").textContent);
  const root = document.getElementById("viewer");
  const board = root.querySelector(".board"), slider = root.querySelector("input"), said = root.querySelector(".said");
  const picks = root.querySelector(".picks"), play = root.querySelector(".play");
  const text = data.rows === 1; // a line of text: the question above, the answer below
  const cells = data.rows * data.columns;
  let puzzle = null, frames = [], timer = 0;

  // Frame 0 is the question, frame m the answer after step m.
  function unfold(one) {
    const all = [one.question.slice()];
    for (const change of one.changes) {
      const next = all[all.length - 1].slice();
      for (let k = 0; k < change.length; k += 2) next[change[k]] = change[k + 1];
      all.push(next);
    }
    return all;
  }

  function lay() {
    board.className = `board${data.columns > 12 && !text ? " dense" : ""}`;
    board.style.setProperty("--columns", data.columns);
    board.style.gridTemplateColumns = `repeat(${data.columns}, minmax(0, 1fr))`;
    board.replaceChildren();
    for (let i = 0; i < cells * (text ? 2 : 1); i++) board.append(document.createElement("i"));
  }

  function paint(cell, i, token, classes) {
    const row = Math.floor(i / data.columns), column = i % data.columns;
    if (data.box && (row + 1) % data.box[0] === 0 && row + 1 < data.rows) classes.push("down");
    if (data.box && (column + 1) % data.box[1] === 0 && column + 1 < data.columns) classes.push("right");
    const fill = data.fills[token];
    if (fill) classes.push("filled");
    cell.className = classes.join(" ");
    cell.style.background = fill ?? "";
    cell.textContent = data.glyphs[token] ?? "?";
  }

  function show(step) {
    const now = frames[step], before = frames[Math.max(step - 1, 0)];
    let changed = 0, wrong = 0;
    for (let i = 0; i < cells; i++) {
      const scored = puzzle.label[i] >= 0, classes = [];
      if (text) {
        paint(board.children[i], i, puzzle.question[i], ["given"]);
        if (!scored || step === 0) {
          board.children[cells + i].className = "";
          board.children[cells + i].textContent = "";
          continue;
        }
      } else if (puzzle.given[i]) classes.push("given");
      if (!scored) classes.push("unscored");
      if (step > 0 && scored && (step === 1 ? now[i] !== puzzle.question[i] : now[i] !== before[i])) {
        classes.push("changed");
        changed++;
      }
      if (step > 0 && scored && now[i] !== puzzle.label[i]) {
        classes.push("wrong");
        wrong++;
      }
      paint(board.children[text ? cells + i : i], i, now[i], classes);
    }
    const halting = step > 0 && puzzle.halting ? ` The halting head gives ${(100 * puzzle.halting[step - 1]).toFixed(1)} %.` : "";
    said.textContent = step === 0
      ? `Puzzle ${puzzle.example}: the question.`
      : `Puzzle ${puzzle.example}, step ${step} of ${frames.length - 1}: ${changed} cells changed, ` +
        (wrong ? `${wrong} not as in the label.` : "all as in the label.") + halting;
    board.setAttribute("aria-label", said.textContent);
    slider.value = step;
  }

  function stop() {
    clearInterval(timer);
    timer = 0;
    play.textContent = "▶";
    play.setAttribute("aria-label", "play");
  }

  function pick(index) {
    stop();
    puzzle = data.puzzles[index];
    frames = unfold(puzzle);
    slider.max = frames.length - 1;
    [...picks.children].forEach((button, i) => button.setAttribute("aria-pressed", String(i === index)));
    show(0);
  }

  data.puzzles.forEach((one, index) => {
    const button = document.createElement("button");
    button.type = "button";
    button.className = one.solved ? "solved" : "failed";
    button.textContent = `${one.solved ? "✓" : "✗"} ${one.example}`;
    button.title = one.solved ? "solved" : "failed";
    button.addEventListener("click", () => pick(index));
    picks.append(button);
  });
  slider.addEventListener("input", () => { stop(); show(Number(slider.value)); });
  play.addEventListener("click", () => {
    if (timer) return stop();
    if (Number(slider.value) === frames.length - 1) show(0);
    play.textContent = "❚❚";
    play.setAttribute("aria-label", "pause");
    timer = setInterval(() => {
      const next = Number(slider.value) + 1;
      if (next < frames.length) show(next);
      if (next >= frames.length - 1) stop();
    }, 400);
  });
  lay();
  pick(0);
}
