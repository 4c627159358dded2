"use strict";
// The page's end of the worker: calls become promises; a worker that fails is replaced at the next call.
class Thinker {
  constructor(source, runtime) {
    Object.assign(this, { source, runtime, worker: null, loading: null, waiting: new Map(), ticket: 0, job: 0, graphs: new Set() });
  }

  static bytes(text) {
    const characters = atob(text), found = new Uint8Array(characters.length);
    for (let i = 0; i < found.length; i++) found[i] = characters.charCodeAt(i); // Uint8Array.from takes seconds
    return found;
  }

  static async unpacked(text) {
    const stream = new Blob([Thinker.bytes(text)]).stream().pipeThrough(new DecompressionStream("gzip"));
    return new Uint8Array(await new Response(stream).arrayBuffer());
  }

  call(call, given) {
    return new Promise((resolve, reject) => {
      this.waiting.set(++this.ticket, { resolve, reject });
      this.worker.postMessage({ call, ticket: this.ticket, ...given });
    });
  }

  fail(reason) {
    this.worker?.terminate();
    this.worker = this.loading = null;
    this.graphs.clear();
    for (const { reject } of this.waiting.values()) reject(new Error(reason));
    this.waiting.clear();
  }

  // A failed call leaves a session or the runtime half made: the next one gets a new worker.
  whole(promise) {
    return promise.catch((error) => {
      this.fail(error.message);
      throw error;
    });
  }

  ready() {
    return (this.loading ??= this.whole(this.load()));
  }

  async load() {
    this.worker = new Worker(URL.createObjectURL(new Blob([this.source], { type: "text/javascript" })));
    this.worker.onerror = (event) => this.fail(event.message || "the worker ended");
    this.worker.onmessage = ({ data: { ticket, answer, error } }) => {
      const { resolve, reject } = this.waiting.get(ticket) ?? {};
      this.waiting.delete(ticket);
      if (error === undefined) resolve?.(answer);
      else reject?.(new Error(error));
    };
    await this.call("load", { wasm: await Thinker.unpacked(this.runtime) });
  }

  // A batch of tries at one puzzle; `numbers`: from 1, the first sees the puzzle as it stands.
  async begin(model, boards, numbers, { state = null } = {}) {
    await this.ready();
    const { rows, columns } = boards[0], id = ++this.job;
    const shape = model.any_size ? [boards.length, rows, columns] : [boards.length, rows * columns];
    let graphs = null; // the worker keeps those it has seen
    if (!this.graphs.has(model.name)) {
      graphs = { start: await Thinker.unpacked(model.files.start), step: await Thinker.unpacked(model.files.step) };
      this.graphs.add(model.name);
    }
    const none = ([high, wide]) => Array(high * wide).fill(-1); // a puzzle without such constraints
    const constraints = Object.fromEntries(
      Object.entries(model.constraints ?? {}).map(([name, size]) => [name, { size, values: boards.flatMap((board) => board.relations?.[name] ?? none(size)) }]),
    );
    const known = { name: model.name, graphs: model.graphs, drawn: model.drawn, state: model.state };
    await this.whole(this.call("begin", { id, model: known, graphs, tokens: boards.flatMap((board) => board.tokens), shape, constraints, numbers, state }));
    return id;
  }

  step(id) {
    return this.call("step", { id });
  }
}

// Of logits (B, S, V): the likeliest token of every cell, and its probability.
function likeliest(logits, rows, tokens) {
  const cells = logits.length / rows / tokens, found = [];
  for (let row = 0; row < rows; row++) {
    const answer = new Array(cells), sure = new Float32Array(cells);
    for (let cell = 0; cell < cells; cell++) {
      const from = (row * cells + cell) * tokens;
      let best = 0, sum = 0;
      for (let token = 1; token < tokens; token++) if (logits[from + token] > logits[from + best]) best = token;
      for (let token = 0; token < tokens; token++) sum += Math.exp(logits[from + token] - logits[from + best]);
      answer[cell] = best;
      sure[cell] = 1 / sum;
    }
    found.push({ answer, sure });
  }
  return found;
}
