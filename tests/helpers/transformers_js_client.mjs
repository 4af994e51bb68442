// Reads folders with ONNX models by transformers.js, without a network, in Node or in a browser:
// node transformers_js_client.mjs JOBS.json ANSWERS.json
//
// The environment variable ALBERT_TF_TRANSFORMERS_JS names a folder with node_modules/@huggingface/transformers. A job is
// {folder, task, dtype, rows, options}: rows [text, pair or null] for the pipeline of the task. An answer is
// {ids, results, outputs}: outputs has the arrays of logits, but not those of all pieces.

export async function answer({ env, pipeline }, { folder, task, dtype, rows, options }) {
  const name = folder.split("/").pop();
  env.allowRemoteModels = false;
  env.allowLocalModels = true;
  env.useBrowserCache = false;
  env.localModelPath = folder.slice(0, -name.length);
  const run = await pipeline(task, name, { dtype });
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

if (globalThis.process) {
  const [fs, path, { createRequire }] = await Promise.all(["fs", "path", "module"].map((name) => import(name)));
  const packages = createRequire(path.resolve(process.env.ALBERT_TF_TRANSFORMERS_JS) + "/");
  const [jobs, answers] = process.argv.slice(2);
  const found = [];
  for (const job of JSON.parse(fs.readFileSync(jobs, "utf-8"))) {
    found.push(await answer(packages("@huggingface/transformers"), job));
  }
  fs.writeFileSync(answers, JSON.stringify(found));
}
