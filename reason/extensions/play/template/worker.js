// The worker: one session of ONNX Runtime for each graph, one batch of tries at a time. `ort` stands before this text.
const sessions = new Map();
let job = null;

const answers = {
  async load({ wasm }) {
    ort.env.wasm.numThreads = 1;
    ort.env.wasm.wasmBinary = wasm;
    return {};
  },

  // A batch of boards; `constraints`: for each input of the steps its size and numbers; `state`: the parts of try 1's first state, in place of drawn ones or the model's own.
  async begin({ id, model, graphs, tokens, shape, constraints, numbers, state }) {
    if (!sessions.has(model.name)) {
      const [start, step] = [await ort.InferenceSession.create(graphs.start), await ort.InferenceSession.create(graphs.step)];
      sessions.set(model.name, { start, step });
    }
    const { start, step } = sessions.get(model.name), rows = shape[0];
    const asked = { tokens: new ort.Tensor("int64", BigInt64Array.from(tokens, BigInt), shape) };
    if (model.graphs.start.inputs.includes("identifiers")) asked.identifiers = new ort.Tensor("int64", new BigInt64Array(rows), [rows]);
    const now = await start.run(asked), each = now.x.size / rows;
    for (const name of model.state) {
      const data = now[name]?.data ?? new Float32Array(now.x.size);
      numbers.forEach((number, row) => {
        const draw = normal(uniform(0, number, 1));
        if (model.drawn.includes(name)) for (let i = 0; i < each; i++) data[row * each + i] = draw();
      });
      if (state && numbers[0] === 1) data.set(state[name]);
      now[name] = new ort.Tensor("float32", data, now.x.dims);
    }
    for (const [name, { size, values }] of Object.entries(constraints)) now[name] = new ort.Tensor("int64", BigInt64Array.from(values, BigInt), [rows, ...size]);
    job = { id, model, step, now, rows, each };
    return {};
  },

  // One supervision step: logits, the halting probability and ‖z_m − z_{m−1}‖ of each try.
  async step({ id }) {
    if (!job || job.id !== id) return { gone: true };
    const { model, step, now, rows, each } = job, began = performance.now();
    const said = await step.run(now), change = new Float32Array(rows);
    for (const name of model.state) {
      const old = now[name].data, data = said[`next_${name}`].data;
      for (let row = 0; row < rows; row++)
        for (let i = row * each; i < (row + 1) * each; i++) change[row] += (data[i] - old[i]) ** 2;
      now[name] = new ort.Tensor("float32", data, now.x.dims);
    }
    const halting = said.halt ? Float32Array.from(said.halt.data, (logit) => 1 / (1 + Math.exp(-logit))) : null;
    return { logits: said.logits.data, halting, change: change.map(Math.sqrt), milliseconds: performance.now() - began };
  },
};

let last = Promise.resolve();
self.onmessage = ({ data: { call, ticket, ...given } }) => {
  last = last
    .then(() => answers[call](given))
    .then((answer) => self.postMessage({ ticket, answer }))
    .catch((error) => self.postMessage({ ticket, error: String(error?.message ?? error) }));
};
