// The model beside the page, in ONNX Runtime in the reader's browser. page.js imports it as backend.js.
//
// The answers are those of the functions of albert_tf/tasks that predict from text. Offsets count characters, and
// JavaScript's own count UTF-16 units.

import * as ort from "./onnxruntime.js";
import {Tokenizer} from "./tokenizers.js";

const BATCH = 16;  // rows that are computed at once
let tokenizer, session, settings;

export async function models() {
  const [described, vocabulary, options] = await Promise.all(
    ["models.json", "tokenizer.json", "tokenizer_config.json"].map((name) => fetched(name, "json")));
  tokenizer = new Tokenizer(vocabulary, options);
  settings = described.settings;
  ort.env.wasm.numThreads = 1;  // more need headers that few static hosts send
  ort.env.wasm.wasmPaths = {wasm: new URL("onnxruntime.wasm", import.meta.url).href};
  session = await ort.InferenceSession.create(await fetched(settings.file, "arrayBuffer"));
  return described.models;
}

// The answer to a request {signature_name, instances}.
export async function predict(model, request) {
  const predictions = [];
  for (const instance of request.instances) {
    predictions.push(await ANSWERS[model.signatures[request.signature_name].view](instance));
  }
  return {predictions};
}

// Functions from the fields of a view to what it shows.
const ANSWERS = {
  async fill_masks({text}) {
    const [before, ...after] = text.split("[MASK]");
    let ids = encode(before);
    for (const part of after) {
      const pieces = encode(part);
      if (pieces.length > 0 && !/^\s/u.test(part)) pieces.splice(0, 1, ...insideWord(pieces[0]));
      ids = [...ids, settings.mask_id, ...pieces];
    }
    const row = packed(ids.slice(0, settings.row_length - 2));
    const [output] = await run([row]);
    const fillings = row.ids.flatMap((id, place) => {
      if (id !== settings.mask_id) return [];
      const probabilities = softmax(output("logits", place)).slice(0, settings.vocab_size);
      return [best(probabilities, settings.top_k).map((piece) => [tokenizer.id_to_token(piece), probabilities[piece]])];
    });
    return {pieces: fillings.map((mask) => mask.map(([piece]) => piece)),
            probabilities: fillings.map((mask) => mask.map(([, probability]) => probability))};
  },

  async sentence_order({text_a, text_b}) {
    const [output] = await run([pair(encode(text_a), encode(text_b))]);
    return softmax(output("sop_logits"));
  },

  async classify({text_a, text_b = ""}) {
    const [output] = await run([pair(encode(text_a), encode(text_b))]);
    const scaled = Array.from(output("logits"), (logit) => logit / settings.temperature);
    const functions = {softmax, sigmoid: (values) => values.map((value) => 1 / (1 + Math.exp(-value))),
                       identity: (values) => values};
    return {probabilities: functions[settings.activation](scaled)};
  },

  async answer({question, context}) {
    const query = encode(question).slice(0, settings.max_query_length);
    const pieces = withOffsets(context);
    const ids = pieces.map((piece) => piece.id);
    const windows = windowsOf(ids.length, settings.max_seq_length - query.length - 3, settings.doc_stride);
    let found = {answer: "", start: 0, end: 0, score: -3.4028234663852886e38};  // the smallest float32
    const outputs = await run(windows.map(({first, length}) => packed(query, ids.slice(first, first + length))));
    const offset = query.length + 2;
    windows.forEach(({first, length, isBest}, row) => {
      const [starts, ends] = [outputs[row]("start_logits"), outputs[row]("end_logits")];
      for (const start of best(starts, settings.n_best_size)) {
        for (const end of best(ends, settings.n_best_size)) {
          const [from, to] = [start - offset, end - offset], score = starts[start] + ends[end];
          const fits = from >= 0 && isBest[from] && to >= from && to < length && to - from < settings.max_answer_length;
          if (fits && score > found.score) {
            found = {start: pieces[first + from].start, end: pieces[first + to].end, score};
          }
        }
      }
    });
    const text = Array.from(context);
    while (found.start < found.end && isSpace(text[found.start])) found.start++;
    while (found.start < found.end && isSpace(text[found.end - 1])) found.end--;
    return {answer: text.slice(found.start, found.end).join(""), ...found};
  },

  async choose({context, question, options}) {
    const most = settings.row_length - 3, passage = encode(context);
    const [query, ...endings] = [question, ...options].map((text) => tokenizer.normalizer(text).trim());
    const rows = endings.map((ending, option) => {
      if (options[option] === "") return {ids: [], segments: []};
      const joined = query.includes("_") ? query.replaceAll("_", ending) : `${query} ${ending}`;
      const ids = encode(joined).slice(-Math.min(settings.max_qa_length, most));
      return passage.length > 0 ? packed(passage.slice(0, most - ids.length), ids) : pair(ids, []);
    });
    const {logits} = await session.run(tensorsOf(rows, [1, rows.length]));
    return {probabilities: softmax(logits.data)};
  },

  async tag({text}) {
    const words = splitWords(text);
    const pieces = words.map(({word}) => encode(word)).map((ids) => ids.length > 0 ? ids : [settings.unk_id]);
    const ids = pieces.flat();
    const owners = pieces.flatMap((each, word) => each.map((id, i) => i === 0 ? word : -1));
    const windows = windowsOf(ids.length, settings.max_seq_length - 2, settings.doc_stride);
    const tags = words.map(() => null);
    const outputs = await run(windows.map(({first, length}) => packed(ids.slice(first, first + length))));
    windows.forEach(({first, length, isBest}, row) => {
      for (let place = 0; place < length; place++) {
        const word = owners[first + place];
        if (!isBest[place] || word < 0) continue;
        const probabilities = softmax(outputs[row]("logits", place + 1));
        const [label] = best(probabilities, 1);
        tags[word] = {name: settings.label_names[label], score: probabilities[label]};
      }
    });
    return {words: words.map(({word}) => word), tags: tags.map(({name}) => name), scores: tags.map(({score}) => score),
            start: words.map(({start}) => start), end: words.map(({end}) => end)};
  },

  async compare({text}) {
    const [output] = await run([pair(encode(settings.prompt + text), [])]);
    return Array.from(output("sentence_embedding"));
  },
};

// --- texts to rows ---------------------------------------------------------------------------------------------------

// The pieces of a text: the id of each, and the number of its characters in the normalized text, without spaces.
function piecesOf(text) {
  const normalized = tokenizer.normalizer(text), {model} = tokenizer;
  if (normalized === "") return [];
  return tokenizer.pre_tokenizer(normalized, {section_index: 0}).flatMap((word) => model([word]).map((token, i) => {
    const id = model.tokens_to_ids.get(token) ?? settings.unk_id;
    const isWhole = model.config.type === "WordPiece" && id === settings.unk_id;  // "[UNK]" stands for the word
    const shown = isWhole ? word : model.config.type === "WordPiece" && i > 0 ? token.slice(2) : token;
    return {id, size: [...shown.replaceAll("▁", "")].length};
  }));
}

function encode(text) {
  return piecesOf(text).map((piece) => piece.id);
}

// The pieces of a text: the id of each, and the characters of the text that it was made of.
function withOffsets(text) {
  const owners = [];  // of each character of the normalized text but spaces: the characters of the text
  let place = 0;
  for (const unit of text.match(/\P{M}?\p{M}*/gsu)) {  // a character with its marks
    const end = place + [...unit].length;
    for (const character of tokenizer.normalizer(unit)) if (!isSpace(character)) owners.push({start: place, end});
    place = end;
  }
  let next = 0, last = 0;
  return piecesOf(text).map(({id, size}) => {
    const own = owners.slice(next, next + size);
    next += size;
    if (own.length === 0) return {id, start: last, end: last};
    last = own.at(-1).end;
    return {id, start: own[0].start, end: last};
  });
}

// The piece that a word continues with, which has no word-start mark; none for the mark alone.
function insideWord(id) {
  const piece = tokenizer.id_to_token(id);
  if (!piece.startsWith("▁")) return [id];
  return piece === "▁" ? [] : [tokenizer.token_to_id(piece.slice(1)) ?? id];
}

// [CLS] a [SEP], or [CLS] a [SEP] b [SEP]. Its segments are 1 for b and its [SEP].
function packed(a, b = []) {
  const first = [settings.cls_id, ...a, settings.sep_id], second = b.length > 0 ? [...b, settings.sep_id] : [];
  return {ids: [...first, ...second], segments: [...first.map(() => 0), ...second.map(() => 1)]};
}

// Like packed, truncated to row_length tokens.
function pair(a, b) {
  if (b.length === 0) return packed(a.slice(0, settings.row_length - 2));
  const most = settings.row_length - 3, half = Math.floor(most / 2);
  return packed(a.slice(0, Math.max(most - b.length, most - half)), b.slice(0, Math.max(most - a.length, half)));
}

// Overlapping windows of `count` pieces. isBest: whether a piece has more context there than in any other window.
function windowsOf(count, length, stride) {
  if (count <= length) return count > 0 ? [{first: 0, length: count, isBest: Array(count).fill(true)}] : [];
  const step = Math.min(length, stride), spans = [];
  const scores = Array(count).fill(-1), owners = Array(count).fill(0);
  for (let first = 0; first === 0 || first - step + length < count; first += step) {
    const size = Math.min(length, count - first);
    for (let place = 0; place < size; place++) {
      const score = Math.min(place, size - 1 - place) + 0.01 * size;
      if (score > scores[first + place]) [scores[first + place], owners[first + place]] = [score, spans.length];
    }
    spans.push({first, length: size});
  }
  return spans.map(({first, length: size}, number) => (
    {first, length: size, isBest: owners.slice(first, first + size).map((owner) => owner === number)}));
}

// Runs of letters, marks, digits and "_", and other single characters but white space.
function splitWords(text) {
  let place = 0, unit = 0;
  return Array.from(text.matchAll(/[\p{L}\p{M}\p{N}_]+|[^\s\x1c-\x1f\x85]/gu), ({0: word, index}) => {
    const start = place + [...text.slice(unit, index)].length, end = start + [...word].length;
    [place, unit] = [end, index + word.length];
    return {word, start, end};
  });
}

function isSpace(character) {
  return /^\s$/u.test(character);
}

// --- rows to numbers -------------------------------------------------------------------------------------------------

// For each row of ids and segments, a function from the name of an output and places to the numbers of its last axis.
async function run(rows) {
  const outputs = [];
  for (let first = 0; first < rows.length; first += BATCH) {
    const batch = rows.slice(first, first + BATCH);
    const tensors = await session.run(tensorsOf(batch, [batch.length]));
    batch.forEach((row, i) => outputs.push((name, ...places) => {
      const {dims, data} = tensors[name], size = dims.at(-1);
      const start = size * [i, ...places].reduce((total, place, axis) => total * dims[axis] + place, 0);
      return data.subarray(start, start + size);
    }));
  }
  return outputs;
}

// The inputs of the model, [...shape, longest row].
function tensorsOf(rows, shape) {
  const longest = Math.max(1, ...rows.map(({ids}) => ids.length));
  const tensor = (values, fill) => new ort.Tensor("int64", BigInt64Array.from(rows.flatMap((row) => (
    [...values(row), ...Array(longest - row.ids.length).fill(fill)])), BigInt), [...shape, longest]);
  return {input_ids: tensor(({ids}) => ids, settings.pad_id), attention_mask: tensor(({ids}) => ids.map(() => 1), 0),
          token_type_ids: tensor(({segments}) => segments, 0)};
}

function softmax(logits) {
  const largest = logits.reduce((a, b) => Math.max(a, b));
  const weights = Array.from(logits, (logit) => Math.exp(logit - largest));
  const total = weights.reduce((a, b) => a + b);
  return weights.map((weight) => weight / total);
}

// The places of the largest values, the largest first.
function best(values, count) {
  return Array.from(values, (value, place) => place).sort((a, b) => values[b] - values[a] || a - b).slice(0, count);
}

async function fetched(name, kind) {
  const response = await fetch(new URL(name, import.meta.url));
  if (!response.ok) throw new Error(`${name}: ${response.status} ${response.statusText}`);
  return response[kind]();
}
