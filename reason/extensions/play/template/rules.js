"use strict";
// What a family knows of its puzzles: reading what a person types, the rules, symmetries, examples.
// A board is { rows, columns, tokens }; a verdict { holds: true, false or null (no rule tells), broken: Set of
// cells, why: the objection where no cell shows it }.

class Unreadable extends Error {}

function shuffled(count, random) {
  const order = Array.from({ length: count }, (_, i) => i);
  for (let i = count - 1; i > 0; i--) {
    const j = Math.floor(random() * (i + 1));
    [order[i], order[j]] = [order[j], order[i]];
  }
  return order;
}

// A random symmetry: the source cell of each cell, and the new name of each token. The first is the identity.
function symmetry(of, board, tokens, number, random) {
  const { rows, columns } = board, cells = rows * columns;
  const names = Array.from({ length: tokens }, (_, i) => i);
  let source = Array.from({ length: cells }, (_, i) => i);
  if (of === null || number === 1) return { source, names };
  const [first, last] = of.relabel;
  if (last > first) shuffled(last - first + 1, random).forEach((other, i) => (names[first + i] = first + other));
  if (of.turns) {
    const turn = (number - 1) % (rows === columns ? 8 : 4);
    source = source.map((_, i) => {
      let [row, column] = [Math.floor(i / columns), i % columns];
      if (turn & 4) [row, column] = [column, row];
      if (turn & 2) column = columns - 1 - column;
      if (turn & 1) row = rows - 1 - row;
      return row * columns + column;
    });
  } else if (of.moves) {
    const moved = (bands, each) => shuffled(bands, random).flatMap((band) => shuffled(each, random).map((line) => band * each + line));
    const down = moved(of.bands, of.rows_per_band), across = moved(of.stacks, of.columns_per_stack);
    const across_first = of.transpose && random() < 0.5;
    source = source.map((_, i) => {
      const [row, column] = across_first ? [i % columns, Math.floor(i / columns)] : [Math.floor(i / columns), i % columns];
      return down[row] * columns + across[column];
    });
  }
  return { source, names };
}

const FRAME = /^[^0-9\r\n]*(-{10}|--[+*.:']|[+*.:']--)[^0-9\r\n]*$/gm; // a line of a Sudoku's frame
// Text of one character a cell, as Puzzle.parse reads it; what `passed` has is passed over. open: further open cells;
// framed: each line is a row.
function readCells(text, model, { open = "", passed = " \t\r\n", framed = false } = {}) {
  const read = new Map([...model.characters].map((character, token) => [character, token]));
  if (passed.includes(" ")) read.delete(" ");
  for (const character of open) read.set(character, read.get("."));
  const board = text.split("\n").map((line) => [...line].filter((character) => read.has(character) || !passed.includes(character))).filter((line) => line.length);
  const typed = board.flat(), cells = model.rows * model.columns;
  const stranger = typed.find((character) => !read.has(character));
  if (stranger !== undefined) throw new Unreadable(`“${stranger}” is no cell of this puzzle.`);
  const row = board.findIndex((line) => line.length !== model.columns);
  if ((framed || board.length === model.rows) && row >= 0) throw new Unreadable(`Row ${row + 1} has ${board[row].length} cells, ${model.columns} are needed.`);
  if (typed.length !== cells) throw new Unreadable(`This text has ${typed.length} cells, ${cells} are needed.`);
  return { rows: model.rows, columns: model.columns, tokens: typed.map((character) => read.get(character)) };
}

// The lines of a drawing without the empty ones before and after it, as drawn_lines in datasets_gen/family.py.
function drawnLines(text) {
  const lines = text.split("\n").map((line) => line.replace(/\r$/, ""));
  while (lines.length && !lines[0]) lines.shift();
  while (lines.length && !lines.at(-1)) lines.pop();
  return lines;
}

// The rows within a frame, as unframed there; framed: whether there was one.
function unframed(lines) {
  const frame = /^\+-+\+ *$/, framed = lines.length > 2 && frame.test(lines[0]) && frame.test(lines.at(-1));
  const rows = framed ? lines.slice(1, -1) : lines, full = rows.filter((row) => row);
  const barred = full.length > 0 && full.every((row) => /^\|.*\| *$/.test(row));
  return { rows: barred ? rows.map((row) => row.replace(/ +$/, "").slice(1, -1)) : rows, framed: framed || barred };
}

const writeCells = (board, model) => board.tokens.map((token) => model.characters[token]).join("");
const none = { holds: null, broken: new Set() };

const plain = {
  read: (text, model) => readCells(text, model),
  write: writeCells,
  open: (model) => [".", "_"].map((open) => [...model.characters].lastIndexOf(open)).find((token) => token >= 0) ?? -1,
  empty: (model) => ({ rows: model.rows, columns: model.columns, tokens: Array(model.rows * model.columns).fill(Math.max(0, plain.open(model))) }),
  given: (question, model) => question.tokens.map((token) => !"._".includes(model.characters[token])),
  examples: [],
  check: ({ answer }, tokens) => (answer ? { holds: tokens.every((token, i) => answer[i] < 0 || token === answer[i]), broken: new Set(), why: "This is not the solution." } : none),
  objection: () => null,
};

const sudoku = {
  ...plain,
  read(text, model) {
    const rows = text.replace(FRAME, "");
    return readCells(rows, model, { open: "0_*?·", passed: " \t\r\n|+=':,", framed: rows !== text });
  },
  examples: [
    ["easy", "53..7....6..195....98....6.8...6...34..8.3..17...2...6.6....28....419..5....8..79"],
    ["a hard one", "6...2......4..8.........39.........384.........5.6...1..19..5....861.7.2...3..8.."],
    ["the hardest", "8..........36......7..9.2...5...7.......457.....1...3...1....68..85...1..9....4.."],
    ["a puzzle", ".5......41....32......4.6.241....6.."],
    ["empty", ".".repeat(81)],
    ["empty", ".".repeat(36)],
  ],
  // Cells whose token stands twice in a row, column or box.
  clashes(tokens, model) {
    const broken = new Set();
    for (const numbers of Object.values(model.groups)) {
      const seen = new Map();
      tokens.forEach((token, i) => {
        if (!model.symbols.includes(token)) return;
        const key = numbers[i] * 1000 + token;
        if (seen.has(key)) broken.add(i).add(seen.get(key));
        else seen.set(key, i);
      });
    }
    return broken;
  },
  check(question, tokens, model) {
    const broken = sudoku.clashes(tokens, model);
    const kept = question.tokens.every((token, i) => !model.symbols.includes(token) || token === tokens[i]);
    return { holds: kept && broken.size === 0 && tokens.every((token) => model.symbols.includes(token)), broken, why: "A clue is changed, or a cell is open." };
  },
  objection: (question, model) => (sudoku.clashes(question.tokens, model).size ? "The puzzle contradicts itself: the marked digits stand twice in a row, a column or a box." : null),
};

const [WALL, FREE, START, GOAL, PATH] = [1, 2, 3, 4, 5];
const maze = {
  ...plain,
  largest: 40,
  brushes: [["wall", WALL], ["free", FREE], ["start", START], ["goal", GOAL]],
  read(text, model) {
    let { rows, framed } = unframed(drawnLines(text));
    if (rows.length === 1 && !framed) {
      const size = Math.sqrt(rows[0].length);
      if (!Number.isInteger(size)) throw new Unreadable("One line must hold a square maze; draw others in lines.");
      rows = Array.from({ length: size }, (_, row) => rows[0].slice(row * size, (row + 1) * size));
    }
    const columns = Math.max(0, ...rows.map((row) => row.length)), typed = rows.map((row) => row.padEnd(columns)).join("");
    const stranger = [...typed].find((character) => !maze.cells.has(character));
    if (stranger !== undefined) throw new Unreadable(`“${stranger}” is no cell of a maze: # is a wall, . or a space is free, S the start, G the goal.`);
    if (rows.length < 3 || columns < 3 || rows.length > maze.largest || columns > maze.largest)
      throw new Unreadable(`A maze has 3 to ${maze.largest} rows and columns; this one is ${rows.length} × ${columns}.`);
    if (!model.any_size && (rows.length !== model.rows || columns !== model.columns)) throw new Unreadable(`This model reads ${model.rows} × ${model.columns} mazes alone.`);
    return { rows: rows.length, columns, tokens: [...typed].map((character) => maze.cells.get(character)) };
  },
  cells: new Map([["#", WALL], [" ", FREE], [".", FREE], ["S", START], ["G", GOAL], ["o", FREE]]),
  write: (board) => {
    const text = board.tokens.map((token) => "?#.SGo"[token]).join("");
    return text.match(new RegExp(`.{${board.columns}}`, "g")).join("\n");
  },
  open: () => FREE,
  empty: (model, rows = 15, columns = 15) => {
    [rows, columns] = model.any_size ? [rows, columns] : [model.rows, model.columns];
    const tokens = Array(rows * columns).fill(FREE);
    tokens[0] = START;
    tokens[tokens.length - 1] = GOAL;
    return { rows, columns, tokens };
  },
  // Of forty random fields the one whose farthest free cell is farthest: such mazes the shipped model was trained on.
  random(model, rows, columns, random) {
    [rows, columns] = model.any_size ? [rows, columns] : [model.rows, model.columns];
    let best = null, longest = 0;
    for (let draw = 0; draw < 40 || longest < 2; draw++) {
      const density = 0.25 + 0.15 * random(), tokens = Array.from({ length: rows * columns }, () => (random() < density ? WALL : FREE));
      const start = Math.floor(random() * tokens.length);
      tokens[start] = START;
      const far = maze.distances({ rows, columns, tokens }, start, (token) => token !== WALL), most = Math.max(...far);
      if (most <= longest) continue;
      tokens[far.indexOf(most)] = GOAL;
      [best, longest] = [tokens, most];
    }
    return { rows, columns, tokens: best };
  },
  neighbours(i, rows, columns) {
    const found = [];
    if (i >= columns) found.push(i - columns);
    if (i < (rows - 1) * columns) found.push(i + columns);
    if (i % columns) found.push(i - 1);
    if ((i + 1) % columns) found.push(i + 1);
    return found;
  },
  // Steps from a cell to each, over cells that `passes`; -1 where none lead.
  distances({ rows, columns, tokens }, from, passes) {
    const steps = Array(tokens.length).fill(-1), queue = [from];
    steps[from] = 0;
    for (const i of queue)
      for (const next of maze.neighbours(i, rows, columns))
        if (steps[next] < 0 && passes(tokens[next])) {
          steps[next] = steps[i] + 1;
          queue.push(next);
        }
    return steps;
  },
  check(question, tokens) {
    const { rows, columns } = question, start = question.tokens.indexOf(START), goal = question.tokens.indexOf(GOAL);
    const broken = new Set();
    tokens.forEach((token, i) => {
      const asked = question.tokens[i];
      if (token !== asked && !(token === PATH && asked === FREE)) broken.add(i);
      if (token !== PATH && token !== START && token !== GOAL) return;
      const beside = maze.neighbours(i, rows, columns).filter((j) => [PATH, START, GOAL].includes(tokens[j])).length;
      if (beside !== (token === PATH ? 2 : 1)) broken.add(i); // where the path ends or forks
    });
    const along = maze.distances({ rows, columns, tokens }, start, (token) => token === PATH || token === GOAL)[goal];
    const shortest = maze.distances(question, start, (token) => token !== WALL)[goal];
    const cells = tokens.filter((token) => token === PATH).length;
    const holds = broken.size === 0 && along === shortest && cells === shortest - 1;
    return { holds, broken, why: along > shortest ? "The path is longer than the shortest one." : "Path cells lie beside the path." };
  },
  objection(question) {
    const count = (token) => question.tokens.filter((other) => other === token).length;
    if (count(START) !== 1 || count(GOAL) !== 1) return `One start and one goal are needed; there are ${count(START)} and ${count(GOAL)}.`;
    const far = maze.distances(question, question.tokens.indexOf(START), (token) => token !== WALL)[question.tokens.indexOf(GOAL)];
    return far < 0 ? "The puzzle contradicts itself: no path leads from S to G." : null;
  },
  given: (question) => question.tokens.map((token) => token !== FREE),
};

const addition = {
  ...plain,
  examples: [["47 + 85", "47+85"], ["999 + 1", "999+1"], ["628 + 593", "628+593"]],
  read(text, model) {
    const { digits, operands, zero_pad, causal } = model.task;
    const sum = /^([ \t\r\n]*[0-9]+[ \t\r\n]*(?:\+[ \t\r\n]*[0-9]+[ \t\r\n]*)*)(?:=[ \t\r\n]*[0-9]*§?_*[ \t\r\n]*)?$/.exec(text);
    const terms = sum === null ? [] : sum[1].replace(/\s/g, "").split("+");
    if (causal) throw new Unreadable("This model writes its answer token by token, which the page does not show.");
    if (terms.length !== operands || !terms.every((term) => term.length <= digits))
      throw new Unreadable(`Write ${operands} whole numbers of up to ${digits} digits with + between them.`);
    const prompt = `${terms.map((term) => (zero_pad ? term.padStart(digits, "0") : String(BigInt(term)))).join("+")}= `;
    const cells = prompt + "_".repeat(addition.width(model) + 1);
    const tokens = [...cells].map((character) => model.characters.indexOf(character));
    return { rows: 1, columns: model.columns, tokens: [...tokens, ...Array(model.columns - tokens.length).fill(0)] };
  },
  write: (board, model) => board.tokens.map((token) => model.characters[token]).join("").replace(/=.*$/, "").replace(/\b0+(?=\d)/g, ""),
  empty: (model) => addition.read("0+0", model),
  given: (question, model) => question.tokens.map((token) => model.characters[token] !== "_"),
  width: ({ task }) => String(BigInt(task.operands) * (10n ** BigInt(task.digits) - 1n)).length, // of the largest sum
  expected(question, model) {
    const { zero_pad, reverse } = model.task, sum = String(addition.write(question, model).split("+").map(BigInt).reduce((a, b) => a + b));
    const padded = zero_pad ? sum.padStart(addition.width(model), "0") : sum;
    return [...(reverse ? [...padded].reverse().join("") : padded), "§"].map((character) => model.characters.indexOf(character));
  },
  check(question, tokens, model) {
    const first = question.tokens.findIndex((token) => model.characters[token] === "_"), broken = new Set();
    addition.expected(question, model).forEach((token, i) => tokens[first + i] !== token && broken.add(first + i));
    return { holds: broken.size === 0, broken };
  },
};

const FAMILIES = { sudoku, maze, addition, plain };
