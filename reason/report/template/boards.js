"use strict";
// The viewer of recorded boards: a puzzle, its answer after every supervision step, and a slider over the steps. It plays by itself,
// one puzzle after the other, until someone touches it; not for readers who ask for reduced motion.
{
  const data = JSON.parse(document.getElementById("boards").textContent);
  const root = document.getElementById("viewer");
  const element = root.querySelector(".board"), slider = root.querySelector("input"), said = root.querySelector(".said");
  const picks = root.querySelector(".picks"), play = root.querySelector(".play");
  const text = data.rows === 1; // a line of text: the question above, the answer below
  const cells = data.rows * data.columns, board = new Board(element, data, { lines: text ? 2 : 1 });
  const still = matchMedia("(prefers-reduced-motion: reduce)").matches;
  const PUZZLE = 8000, LEAST = 60, MOST = 500, REST = 2000; // milliseconds: of a puzzle, of a step, at a puzzle's end
  let puzzle = null, index = 0, frames = [], timer = 0, onward = false;

  function show(step) {
    const now = frames[step], before = frames[Math.max(step - 1, 0)];
    let changed = 0, wrong = 0, clues = 0;
    for (let i = 0; i < cells; i++) {
      const scored = puzzle.label[i] >= 0, classes = [];
      if (text) {
        board.paint(i, puzzle.question[i], ["given"]);
        if (!scored || step === 0) {
          board.clear(cells + i);
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
      if (step > 0 && !text && scored && puzzle.given[i] && now[i] !== puzzle.question[i]) {
        classes.push("clue");
        clues++;
      }
      board.paint(text ? cells + i : i, now[i], classes);
    }
    const halting = step > 0 && puzzle.halting ? ` The halting head gives ${(100 * puzzle.halting[step - 1]).toFixed(1)} %.` : "";
    said.textContent = step === 0
      ? `Puzzle ${puzzle.example}: the question.`
      : `Puzzle ${puzzle.example}, step ${step} of ${frames.length - 1}: ${changed} cells changed, ` +
        (wrong ? `${wrong} not as in the label` : "all as in the label") +
        (clues ? `, ${clues} of them clues that it changed.` : ".") + halting;
    element.setAttribute("aria-label", said.textContent);
    slider.value = step;
  }

  function stop() {
    clearTimeout(timer);
    timer = 0;
    said.setAttribute("aria-live", "polite"); // a step that someone chose is read out, those that play are not
    play.textContent = "▶";
    play.setAttribute("aria-label", "play");
  }

  function start(all) {
    onward = all;
    said.setAttribute("aria-live", "off");
    play.textContent = "❚❚";
    play.setAttribute("aria-label", "pause");
    timer = setTimeout(tick, Number(slider.value) === 0 ? MOST : pace());
  }

  function pace() {
    return Math.min(MOST, Math.max(LEAST, PUZZLE / frames.length));
  }

  function tick() {
    const next = Number(slider.value) + 1, last = frames.length - 1;
    if (next <= last) {
      show(next);
      if (next < last) timer = setTimeout(tick, pace());
      else if (onward && index + 1 < data.puzzles.length) timer = setTimeout(tick, REST);
      else stop();
    } else {
      pick(index + 1);
      timer = setTimeout(tick, MOST);
    }
  }

  function pick(number) {
    index = number;
    puzzle = data.puzzles[index];
    frames = [puzzle.question, ...puzzle.answers]; // frame m is the answer after step m
    slider.max = frames.length - 1;
    buttons.forEach((button, i) => button.setAttribute("aria-pressed", String(i === index)));
    show(0);
  }

  for (const name of ["solved", "failed"])
    if (data.puzzles.some((one) => one.solved === (name === "solved"))) {
      const group = document.createElement("span");
      group.className = name;
      group.append(`${name}: `);
      picks.append(group);
    }
  const buttons = data.puzzles.map((one, number) => {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = one.example;
    button.addEventListener("click", () => { stop(); pick(number); });
    picks.querySelector(one.solved ? ".solved" : ".failed").append(button);
    return button;
  });
  slider.addEventListener("input", () => { stop(); show(Number(slider.value)); });
  play.addEventListener("click", () => {
    if (timer) return stop();
    if (Number(slider.value) === frames.length - 1) show(0);
    start(false);
  });
  root.querySelector(".of-clues").hidden = text || !data.puzzles.some((one) => one.given.includes(true));
  pick(0);
  if (still) stop();
  else start(true);
}
