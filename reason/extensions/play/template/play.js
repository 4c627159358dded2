"use strict";
// The page: one puzzle, a batch of tries at it, and the step that is shown. The worker computes, this draws.
{
  const at = (id) => document.getElementById(id);
  const { models, worker } = JSON.parse(at("data").textContent);
  for (const model of models) Object.assign(model, { characters: [...model.characters], glyphs: [...model.glyphs] });
  const thinker = new Thinker(worker, at("runtime").textContent);
  const KEPT = 16, BATCH = 4, MOST = 64; // tries that are listed; at once, and at most, until the rules hold
  let model, family, question, given, board; // the puzzle and its drawing
  let tries = [], chosen = 0, shown = 0, cursor = 0, brush = null;
  let job = null, focused = null, running = false, run = 0; // `run` numbers what computes, so that an older one sees that it has ended

  // ---- the puzzle

  function pickModel(name) {
    model = models.find((one) => one.name === name) ?? models[0];
    family = FAMILIES[model.family];
    for (const button of at("models").children) button.setAttribute("aria-pressed", String(button.value === model.name));
    at("parameters").textContent = model.parameters.toLocaleString("en");
    at("about").textContent = model.summary ?? "";
    at("text-label").textContent = model.family === "addition" ? "Type a sum" : model.family === "maze" ? "Paint on the board, or paste a maze" : "Type into the board, or paste a puzzle";
    brush = family.brushes ? family.brushes[0][1] : null;
    const offers = examples();
    at("examples").replaceChildren(...offers.map(([name, make]) => button(name, () => setQuestion(make()))));
    setQuestion(offers[0][1]());
  }

  // What fits the model: names, and what makes each question.
  function examples() {
    const offers = [];
    for (const [name, text] of family.examples)
      try {
        family.read(text, model);
        offers.push([name, () => family.read(text, model)]);
      } catch (error) {
        if (!(error instanceof Unreadable)) throw error;
      }
    if (family.random)
      for (const size of model.any_size ? [15, 10, 20, 30] : [model.rows])
        offers.push([`${size} × ${size}`, () => family.random(model, size, size, uniform(Date.now()))]);
    (model.puzzles ?? []).forEach((_, number) => offers.push([`puzzle ${number + 1}`, () => ofSet(number)]));
    if (model.puzzles) return offers;
    return offers.length && !family.random ? offers : [...offers, ["empty", () => family.empty(model)]];
  }

  const ofSet = (number) => ({ rows: model.rows, columns: model.columns, number, ...model.puzzles[number] });

  // A typed board; of a set, it has the constraints of puzzle `number`, and its answer only with the same clues.
  function read(text, number = question?.number ?? 0) {
    const typed = family.read(text, model), one = model.puzzles?.[number];
    if (!one) return typed;
    const same = typed.tokens.every((token, i) => token === one.tokens[i]);
    return same ? ofSet(number) : { ...ofSet(number), tokens: typed.tokens, answer: null };
  }

  function setQuestion(next) {
    const resized = !board || board.model !== model || question.rows !== next.rows || question.columns !== next.columns;
    question = next;
    if (resized) {
      board = new Board(at("board"), { ...model, rows: next.rows, columns: next.columns }, { grid: true });
      board.model = model;
      board.cells.forEach((cell, i) => (cell.tabIndex = i ? -1 : 0));
      at("board").classList.toggle("paints", brush !== null);
      cursor = 0;
      offerPad();
    }
    at("drawing").textContent = question.drawing ?? "";
    at("drawing").hidden = !question.drawing;
    at("text").value = family.write(question, model);
    at("text").rows = model.family === "maze" ? 3 : 1;
    at("steps").value = 2 * model.trained_steps * Math.ceil(Math.sqrt(Math.max(1, (next.rows * next.columns) / (model.rows * model.columns))));
    forget();
  }

  function edit(i, token) {
    if (model.family === "addition" || token === undefined || question.tokens[i] === token) return;
    const tokens = [...question.tokens];
    if (family.brushes && [START, GOAL].includes(token)) tokens[tokens.indexOf(token)] = FREE; // it moves
    if (family.brushes && [START, GOAL].includes(tokens[i]) && ![START, GOAL].includes(token)) return;
    tokens[i] = token;
    question = { ...question, tokens, answer: null };
    at("text").value = family.write(question, model);
    forget();
  }

  // What was computed belongs to another question or another setting.
  function forget() {
    stop();
    job = null;
    tries = [];
    chosen = shown = 0;
    given = family.given(question, model);
    draw();
    const reason = family.objection(question, model);
    say(reason ?? "This is the question. Press Think.", Boolean(reason));
    remember();
  }

  // ---- thinking

  const steps = () => Math.min(512, Math.max(1, Math.round(Number(at("steps").value)) || 1));

  async function begin(count) {
    const first = tries.length ? Math.max(...tries.map((one) => one.number)) + 1 : 1;
    const fresh = Array.from({ length: count }, (_, k) => {
      const number = first + k;
      const moved = symmetry(model.symmetry, question, model.characters.length, number, uniform(0, number));
      return { number, ...moved, back: moved.names.reduce((back, name, token) => ((back[name] = token), back), []), frames: [] };
    });
    const boards = fresh.map(({ source, names }) => ({ ...question, tokens: source.map((i) => names[question.tokens[i]]) }));
    const mine = run, id = await thinker.begin(model, boards, fresh.map((one) => one.number));
    if (mine !== run) return; // another puzzle
    tries = [...tries, ...fresh].slice(-Math.max(KEPT, count));
    chosen = tries.indexOf(fresh[0]);
    job = { id, fresh };
  }

  async function advance() {
    const mine = job, said = await thinker.step(job.id);
    if (said.gone || mine !== job) return;
    likeliest(said.logits, job.fresh.length, model.characters.length).forEach(({ answer, sure }, row) => {
      const one = job.fresh[row], tokens = [...question.tokens], certainty = new Float32Array(tokens.length).fill(1);
      one.source.forEach((from, i) => {
        if (model.family === "addition" && given[from]) return; // only blank cells are answered
        tokens[from] = one.back[answer[i]];
        certainty[from] = sure[i];
      });
      one.frames.push({ ...family.check(question, tokens, model), tokens, sure: certainty, change: said.change[row], halting: said.halting?.[row] ?? null, milliseconds: said.milliseconds });
    });
  }

  // Compute and show until step `last`; returns false where something else has begun.
  async function think(count, pace, last = steps()) {
    const mine = ++run;
    running = true;
    buttons();
    try {
      if (!job) {
        say("The network is loaded …");
        await begin(count);
        if (mine !== run) return false;
        shown = 0;
      }
      while (mine === run && shown < last) {
        const began = performance.now();
        if (tries[chosen].frames.length <= shown) await advance();
        if (mine !== run || tries[chosen].frames.length <= shown) break; // an older try computes no more
        shown++;
        draw();
        tellStep(false);
        const wait = pace() - (performance.now() - began);
        await new Promise((resolve) => (wait > 0 ? setTimeout(resolve, wait) : requestAnimationFrame(resolve)));
      }
      if (mine !== run) return false;
      stop();
      tellStep(true);
      return true;
    } catch (error) {
      if (mine === run) {
        stop();
        job = null;
        say(`The computation failed: ${error.message}. Press Think to begin again.`, true);
      }
      return false;
    }
  }

  function stop() {
    run++;
    running = false;
    buttons();
  }

  async function untilRulesHold() {
    const pace = () => 0;
    if (tries.length === 0 && !(await think(1, pace))) return;
    while (!held() && tries[tries.length - 1].number < MOST) {
      job = null;
      if (!(await think(BATCH, pace))) return;
    }
    const one = tries.findIndex((one) => one.frames.at(-1)?.holds);
    if (one >= 0) choose(one);
    else say(`None of ${tries[tries.length - 1].number} tries keeps the rules. ${family.objection(question, model) ?? ""}`, true);
  }

  const held = () => tries.some((one) => one.frames.at(-1)?.holds);

  // ---- drawing

  function draw() {
    const frames = tries[chosen]?.frames ?? [], frame = frames[shown - 1], before = frames[shown - 2]?.tokens ?? question.tokens;
    const tokens = frame?.tokens ?? question.tokens;
    const clashes = frame ? frame.broken : (family.clashes?.(question.tokens, model) ?? new Set());
    tokens.forEach((token, i) => {
      const classes = [];
      if (given[i]) classes.push("given");
      if (frame && token !== before[i]) classes.push("changed");
      if (clashes.has(i)) classes.push("wrong");
      if (frame && given[i] && token !== question.tokens[i]) classes.push("clue");
      board.paint(i, token, classes, frame && !given[i] ? frame.sure[i] : 1);
      label(i, token, classes);
    });
    at("scrubber").max = Math.max(...tries.map((one) => one.frames.length), 0);
    at("scrubber").value = shown;
    curve(at("change"), frames.map((one) => one.change), true);
    const halts = frames.length > 0 && frames[0].halting !== null;
    at("halting-figure").style.visibility = halts || !frames.length ? "visible" : "hidden";
    curve(at("halting"), halts ? frames.map((one) => one.halting) : [], false);
    listTries();
  }

  function label(i, token, classes) {
    const name = (family.brushes ?? []).find(([, value]) => value === token)?.[0] ?? (token === PATH && family.brushes ? "path" : board.shape.glyphs[token]?.trim() || "open");
    const marks = classes.filter((one) => ["given", "changed", "wrong"].includes(one)).map((one) => ({ given: "clue", changed: "changed", wrong: "breaks a rule" })[one]);
    const text = `row ${Math.floor(i / question.columns) + 1}, column ${(i % question.columns) + 1}: ${[name, ...marks].join(", ")}`;
    if (board.cells[i].ariaLabel !== text) board.cells[i].ariaLabel = text;
  }

  const SVG = "http://www.w3.org/2000/svg";

  function curve(svg, values, logarithmic) {
    const scale = logarithmic ? (v) => Math.log10(Math.max(v, 1e-6)) : (v) => v;
    const low = logarithmic ? Math.min(...values.map(scale), 0) : 0, high = logarithmic ? Math.max(...values.map(scale), 1) : 1;
    const x = (m) => 30 + (205 * (m - 1)) / Math.max(1, steps() - 1), y = (v) => 70 - (60 * (scale(v) - low)) / (high - low || 1);
    const draw = (name, attributes, text = "") => {
      const one = document.createElementNS(SVG, name);
      for (const [key, value] of Object.entries(attributes)) one.setAttribute(key, value);
      one.textContent = text;
      return one;
    };
    const said = logarithmic ? [10 ** high, 10 ** low].map((v) => (v < 0.01 ? v.toExponential(0) : v.toPrecision(2).includes("e") ? String(Math.round(v)) : v.toPrecision(2))) : ["1", "0"];
    const parts = [
      draw("line", { x1: 30, x2: 235, y1: 70, y2: 70 }),
      draw("text", { x: 26, y: 14, "text-anchor": "end" }, said[0]),
      draw("text", { x: 26, y: 73, "text-anchor": "end" }, said[1]),
    ];
    if (shown && values.length) parts.push(draw("line", { class: "now", x1: x(shown), x2: x(shown), y1: 8, y2: 70 }));
    parts.push(draw("path", { d: values.map((v, i) => `${i ? "L" : "M"}${x(i + 1).toFixed(1)} ${y(v).toFixed(1)}`).join("") }));
    svg.replaceChildren(...parts);
    svg.setAttribute("aria-label", values.length ? `from ${values[0].toPrecision(2)} to ${values.at(-1).toPrecision(2)} in ${values.length} steps` : "nothing yet");
  }

  function listTries() {
    const tiles = at("tiles"); // the buttons stay while they are pressed
    if (tiles.children.length !== tries.length) tiles.replaceChildren(...tries.map((_, k) => button("", () => choose(k))));
    tries.forEach((one, k) => {
      const holds = one.frames[Math.min(shown, one.frames.length) - 1]?.holds ?? null;
      tiles.children[k].textContent = `try ${one.number}${holds === null ? "" : holds ? " ✓" : " ✗"}`;
      tiles.children[k].setAttribute("aria-pressed", String(k === chosen));
    });
    at("tiles-section").hidden = tries.length < 2;
  }

  function choose(k) {
    stop();
    chosen = k;
    shown = Math.min(Math.max(shown, tries[k].frames.length), tries[k].frames.length);
    draw();
    tellStep(true);
  }

  // ---- words and buttons

  function say(text, problem = false) {
    at("said").textContent = text;
    at("said").classList.toggle("problem", problem);
  }

  const counted = (count, one, many) => `${count} ${count === 1 ? one : many}`;

  function tellStep(whole) {
    const one = tries[chosen], frame = one?.frames[shown - 1];
    at("said").setAttribute("aria-live", whole ? "polite" : "off");
    if (!frame) return say("This is the question. Press Think.");
    const before = one.frames[shown - 2]?.tokens ?? question.tokens;
    const changed = frame.tokens.filter((token, i) => token !== before[i]).length;
    let since = one.frames.length;
    while (since > 1 && one.frames[since - 2].holds) since--;
    const broken = frame.broken.size ? `${counted(frame.broken.size, "cell breaks", "cells break")} a rule.` : frame.why;
    const holds = whole && one.frames.at(-1).holds && shown >= since ? `The rules hold since step ${since}.` : "The rules hold.";
    const verdict = frame.holds === null ? "" : ` ${frame.holds ? holds : broken}`;
    const speed = whole ? ` ${Math.round(one.frames.reduce((sum, each) => sum + each.milliseconds, 0) / one.frames.length)} ms a step.` : "";
    say(`Try ${one.number}, step ${shown}: ${counted(changed, "cell", "cells")} changed.${verdict}${speed}`);
    if (whole && frame.holds === false && shown === one.frames.length) at("said").textContent += ` ${family.objection(question, model) ?? "Another try may find it."}`;
  }

  function buttons() {
    at("play").textContent = running ? "❚❚ Pause" : "▶ Think";
    const acting = ["step", "another", "until"].map(at);
    if (running) focused = acting.find((one) => one === document.activeElement); // a disabled one loses it
    for (const one of acting) one.disabled = running;
    if (!running && focused && document.activeElement === document.body) focused.focus();
    at("until").hidden = family?.check === plain.check;
  }

  function button(text, act) {
    const one = document.createElement("button");
    one.type = "button";
    one.textContent = text;
    one.addEventListener("click", act);
    return one;
  }

  const pace = () => Number(at("speed").value);

  at("play").addEventListener("click", () => {
    if (running) return stop(), tellStep(true);
    if (shown >= steps()) shown = 0;
    think(1, pace);
  });
  at("step").addEventListener("click", () => think(1, () => 0, shown + 1));
  at("reset").addEventListener("click", () => { stop(); shown = 0; draw(); tellStep(true); });
  at("scrubber").addEventListener("input", () => { stop(); shown = Math.min(Number(at("scrubber").value), tries[chosen]?.frames.length ?? 0); draw(); tellStep(true); });
  at("another").addEventListener("click", () => { job = null; think(1, pace); });
  at("until").addEventListener("click", untilRulesHold);
  at("steps").addEventListener("change", () => { at("steps").value = steps(); draw(); remember(); });
  at("typed").addEventListener("submit", (event) => {
    event.preventDefault();
    try {
      setQuestion(read(at("text").value));
    } catch (error) {
      if (!(error instanceof Unreadable)) throw error;
      say(error.message, true);
    }
  });
  at("share").addEventListener("click", async () => {
    remember();
    try {
      await navigator.clipboard.writeText(location.href);
      say("The link is copied. It holds the puzzle and the settings.");
    } catch {
      say("The address of this page holds the puzzle and the settings: copy it.");
    }
  });

  // ---- entering and painting

  function offerPad() {
    let entries = [];
    if (family.brushes) entries = family.brushes;
    else if (model.family !== "addition")
      entries = [...model.characters].map((character, token) => [character, token]).filter(([character, token]) => token && !"._?·".includes(character));
    const open = family.open(model);
    at("pad").setAttribute("aria-label", family.brushes ? "paint with" : "enter into the chosen cell");
    const keys = entries.map(([name, token]) => {
      const one = button(name, () => (family.brushes ? pickBrush(token) : edit(cursor, token)));
      one.value = token;
      return one;
    });
    if (!family.brushes && entries.length) keys.push(button("erase", () => edit(cursor, open)));
    at("pad").replaceChildren(...keys);
    if (family.brushes) pickBrush(brush);
    buttons();
  }

  function pickBrush(token) {
    brush = token;
    for (const one of at("pad").children) one.setAttribute("aria-pressed", String(Number(one.value) === token));
  }

  function moveTo(i, focus = true) {
    board.cells[cursor].tabIndex = -1;
    board.cells[cursor].classList.remove("cursor");
    cursor = i;
    board.cells[i].tabIndex = 0;
    if (focus) board.cells[i].focus({ preventScroll: true });
  }

  const cellAt = (event) => board.cells.indexOf(document.elementFromPoint(event.clientX, event.clientY));
  at("board").addEventListener("pointerdown", (event) => {
    const i = cellAt(event);
    if (i < 0) return;
    event.preventDefault();
    moveTo(i);
    if (brush === null) return;
    at("board").setPointerCapture(event.pointerId);
    edit(i, brush === WALL && question.tokens[i] === WALL ? ((at("board").dataset.erasing = "yes"), FREE) : (delete at("board").dataset.erasing, brush));
  });
  at("board").addEventListener("pointermove", (event) => {
    if (brush === null || !event.buttons) return;
    const i = cellAt(event);
    if (i >= 0) edit(i, at("board").dataset.erasing ? FREE : brush);
  });
  at("board").addEventListener("keydown", (event) => {
    const { rows, columns } = question, row = Math.floor(cursor / columns), column = cursor % columns;
    const moves = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
    if (moves[event.key]) {
      const [down, right] = moves[event.key];
      moveTo(Math.min(rows - 1, Math.max(0, row + down)) * columns + Math.min(columns - 1, Math.max(0, column + right)));
    } else if (event.ctrlKey || event.metaKey || event.altKey) return;
    else if (family.brushes && (event.key === " " || event.key === "Enter")) edit(cursor, question.tokens[cursor] === brush ? FREE : brush);
    else {
      const token = [...model.characters].indexOf(family.brushes ? event.key.toUpperCase() : event.key);
      if (token >= 1 && !(token === PATH && family.brushes)) edit(cursor, token);
      else if (["Backspace", "Delete", "0", "."].includes(event.key)) edit(cursor, family.open(model));
      else return;
    }
    event.preventDefault();
  });

  // ---- the link

  function remember() {
    const values = new URLSearchParams({ model: model.name, puzzle: family.write(question, model), steps: steps(), ...(question.number ? { number: question.number } : {}) });
    history.replaceState(null, "", `#${values}`);
  }

  // What a link says, each value checked; what is not understood is told and left out.
  function recall() {
    const values = new URLSearchParams(location.hash.slice(1)), name = values.get("model");
    const known = models.some((one) => one.name === name), text = values.get("puzzle");
    pickModel(known ? name : models[0].name);
    if (name !== null && !known) return say("The link names a model that this page does not hold.", true);
    if (text !== null) {
      try {
        setQuestion(read(text, Number(values.get("number") ?? 0)));
      } catch (error) {
        if (!(error instanceof Unreadable)) throw error;
        return say(`The puzzle of the link: ${error.message}`, true);
      }
    }
    at("steps").value = values.get("steps") ?? at("steps").value;
    at("steps").value = steps();
    remember();
  }

  at("models").append(...models.map((one) => {
    const pick = button(one.title, () => pickModel(one.name));
    pick.value = one.name;
    return pick;
  }));
  recall();
  addEventListener("hashchange", () => { if (location.hash.slice(1) !== "") recall(); });
  globalThis.play = { thinker, models, state: () => ({ model: model.name, question, tries, chosen, shown, running }) }; // for tests
}
