// Reads folders with ONNX models by transformers.js, without a network: node transformers_js_client.cjs JOBS.json ANSWERS.json
//
// The environment variable ALBERT_TF_TRANSFORMERS_JS names a folder with node_modules/@huggingface/transformers. A job is
// {folder, task, dtype, rows, options}: rows [text, pair or null] for the pipeline of the task. An answer is
// {ids, results, outputs}: outputs has the arrays of logits, but not those of all pieces.
const fs = require("fs");
const path = require("path");
const { createRequire } = require("module");
const { env, pipeline } = createRequire(path.resolve(process.env.ALBERT_TF_TRANSFORMERS_JS) + "/")(
  "@huggingface/transformers",
);

async function answer({ folder, task, dtype, rows, options }) {
  env.allowRemoteModels = false;
  env.allowLocalModels = true;
  env.localModelPath = path.dirname(folder) + "/";
  const run = await pipeline(task, path.basename(folder), { dtype });
  const found = { ids: [], results: [], outputs: [] };
  for (const [text, pair] of rows) {
    const inputs = run.tokenizer(text, { text_pair: pair, padding: true, truncation: true });
    found.ids.push(inputs.input_ids.tolist()[0].map(Number));
    if (task !== "fill-mask") {
      const outputs = await run.model(inputs);
      const small = Object.entries(outputs).filter(([name, tensor]) => name.endsWith("logits") && tensor.data);
      found.outputs.push(Object.fromEntries(small.map(([name, tensor]) => [name, Array.from(tensor.data)])));
    }
    const result = pair === null ? await run(text, options) : await run(text, pair, options);
    found.results.push(result.data ? Array.from(result.data) : result);
  }
  return found;
}

(async () => {
  const [jobs, answers] = process.argv.slice(2);
  const found = [];
  for (const job of JSON.parse(fs.readFileSync(jobs, "utf-8"))) found.push(await answer(job));
  fs.writeFileSync(answers, JSON.stringify(found));
})();
