import * as backend from "./backend.js";  // server.js, or browser.js in a page without a server

// A view is the form and the result of a signature: the fields with an example each, and a function that
// shows a prediction on the page, or the predictions if `values` makes several rows of the fields. Texts are
// only set as textContent.
const VIEWS = {
  fill_masks: {
    title: "Fill masks", button: "Fill", fields: {text: ["Text with [MASK]", "The [MASK] of the file is not known."]},
    show: (prediction, values, result) => {
      if (prediction.pieces.length === 0) add(result, "p", "There is no [MASK] in the text.");
      prediction.pieces.forEach((pieces, mask) => {
        add(result, "h2", prediction.pieces.length > 1 ? `Mask ${mask + 1}` : "Most likely at the mask");
        pieces.forEach((piece, i) => bar(result, readable(piece), prediction.probabilities[mask][i]));
      });
    },
  },
  classify: {
    title: "Classify", button: "Classify",
    fields: {text_a: ["Text", "A warm, funny and clever film."], text_b: ["Second text, for tasks with pairs", ""]},
    show: (prediction, values, result, labels) => {
      if (prediction.probabilities.length === 1) {
        add(result, "p", `Score: ${prediction.probabilities[0].toFixed(3)}`);
      } else {
        const names = prediction.label_names || labels || [];
        prediction.probabilities.forEach((probability, label) =>
          bar(result, names[label] || (label === prediction.predictions && prediction.labels) || `Label ${label}`,
              probability));
      }
    },
  },
  sentence_order: {
    title: "Sentence order", button: "Compare",
    fields: {text_a: ["First text", "She opened the door."], text_b: ["Second text", "Then she went in."]},
    show: (probabilities, values, result) => {
      bar(result, "In order", probabilities[0]);
      bar(result, "Swapped", probabilities[1]);
    },
  },
  answer: {
    title: "Ask a text", button: "Ask",
    fields: {question: ["Question", "Who sold the boat?", "input"],
             context: ["Text", "Ada sold the boat in May. In June she bought a kettle."]},
    show: (prediction, values, result) => {
      const text = Array.from(values.context);  // offsets count characters, and JavaScript's own count UTF-16 units
      const shown = add(result, "p", text.slice(0, prediction.start).join(""), "text");
      add(shown, "mark", text.slice(prediction.start, prediction.end).join(""));
      shown.append(text.slice(prediction.end).join(""));
      add(result, "p", `Score of the answer: ${prediction.score.toFixed(2)}`);
      if ("no_answer_score" in prediction) {
        bar(result, "The text has no answer", 1 / (1 + Math.exp(-prediction.no_answer_score)));
      }
    },
  },
  choose: {
    title: "Choose", button: "Choose",
    fields: {context: ["Passage", "Ada sold the boat in May. In June she bought a kettle."],
             question: ["Question", "What did Ada buy?", "input"],
             options: ["Options, one per line", "A boat\nA kettle"]},
    values: (fields, inputs) => {
      const options = fields.options.split("\n").filter((line) => line.trim() !== "");
      const count = inputs.options.shape[1];
      if (options.length > count) throw new Error(`The model takes ${count} options at most.`);
      return {...fields, options: [...options, ...Array(count - options.length).fill("")]};
    },
    show: (prediction, values, result) => values.options.forEach((option, i) => {
      if (option !== "") bar(result, option, prediction.probabilities[i]);
    }),
  },
  tag: {
    title: "Tag words", button: "Tag", fields: {text: ["Text", "Ada Lovelace lived in London."]},
    show: (prediction, values, result) => {
      const shown = add(result, "p", "", "text");
      const text = Array.from(values.text);
      let place = 0;
      prediction.words.forEach((word, i) => {
        shown.append(text.slice(place, prediction.start[i]).join(""));
        const isPlain = prediction.tags[i] === "O";
        add(shown, isPlain ? "span" : "mark", text.slice(prediction.start[i], prediction.end[i]).join(""));
        if (!isPlain) add(shown, "sub", prediction.tags[i], "tag");
        place = prediction.end[i];
      });
      shown.append(text.slice(place).join(""));
    },
  },
  compare: {
    title: "Compare texts", button: "Compare",
    fields: {text: ["Texts, one per line. The first is compared with the others.",
                    "How do I reset my password?\nI cannot log in any more.\nThe shop opens at nine."]},
    values: ({text}) => text.split("\n").filter((line) => line.trim() !== "").map((line) => ({text: line})),
    show: ([first, ...others], values, result) => {
      const texts = others.map((vector, i) => [cosine(first, vector), values[i + 1].text]);
      texts.sort(([a], [b]) => b - a);
      for (const [similarity, text] of texts) bar(result, text, similarity, similarity.toFixed(3));
      if (texts.length === 0) add(result, "p", "There is no second line.");
    },
  },
  json: {
    title: "JSON", button: "Send", fields: {},
    show: (prediction, values, result) => add(result, "pre", JSON.stringify(prediction, null, 1)),
  },
};

const state = {models: [], model: null, signature: null};
const at = (id) => document.getElementById(id);

function add(parent, tag, text = "", className = "") {
  const element = document.createElement(tag);
  element.textContent = text;
  if (className) element.className = className;
  parent.append(element);
  return element;
}

function row(table, tag, cells) {
  const line = add(table, "tr");
  cells.forEach((cell, i) => add(line, tag, cell, i > 0 ? "number" : ""));
}

function bar(parent, name, share, shown = `${(100 * share).toFixed(1)} %`) {
  const element = add(parent, "div", "", "bar");
  add(element, "i").style.width = `${100 * Math.max(share, 0)}%`;
  add(element, "span", name);
  add(element, "span", shown);
}

function cosine(a, b) {
  const product = (x, y) => x.reduce((total, value, i) => total + value * y[i], 0);
  return product(a, b) / Math.sqrt(product(a, a) * product(b, b));
}

// SentencePiece marks the start of a word, and WordPiece its continuation.
function readable(piece) {
  if (piece.startsWith("▁")) return piece.slice(1) || "(a blank)";
  return piece;
}

function tabs(parent, names, selected, select) {
  parent.replaceChildren();
  names.forEach(([key, title]) => {
    const button = add(parent, "button", title);
    button.type = "button";
    button.role = "tab";
    button.ariaSelected = String(key === selected);
    button.addEventListener("click", () => select(key));
  });
}

function chooseModel(name) {
  state.model = state.models.find((model) => model.name === name);
  tabs(at("models"), state.models.map((model) => [model.name, model.name]), name, chooseModel);
  at("description").textContent = state.model.description;
  // Signatures without a view are for programs. They are shown only if the model has no others.
  const all = Object.keys(state.model.signatures);
  const shown = all.filter((key) => state.model.signatures[key].view !== "json");
  state.model.shown = shown.length > 0 ? shown : all;
  chooseSignature(state.model.shown[0]);
}

function chooseSignature(name) {
  state.signature = name;
  const titles = state.model.shown.map((key) => {
    const view = state.model.signatures[key].view;
    return [key, view === "json" ? key : VIEWS[view].title];
  });
  tabs(at("views"), titles, name, chooseSignature);
  at("views").hidden = titles.length < 2;
  const form = at("form");
  form.replaceChildren();
  for (const [input, spec] of orderedInputs()) {
    const [title, example, tag = "textarea"] = currentView().fields[input] || [`${input}, as JSON`, "[]"];
    const parent = spec.optional ? add(form, "details") : form;  // one text is asked for, and a second one if wanted
    if (spec.optional) add(parent, "summary", title);
    const label = add(parent, "label", spec.optional ? "" : title);
    const field = add(label, tag);
    field.name = input;
    field.value = example;
    field.ariaLabel = title;
    field.required = !spec.optional && tag === "input";
    field.addEventListener("input", showRequest);
  }
  const button = add(form, "button", currentView().button);
  button.type = "submit";
  at("result").replaceChildren();
  at("error").hidden = true;
  at("response").textContent = "Press the button to see it.";
  showRequest();
}

// The inputs of the signature in the order of the view's fields.
function orderedInputs() {
  const fields = Object.keys(currentView().fields);
  const inputs = Object.entries(state.model.signatures[state.signature].inputs);
  return inputs.sort(([a], [b]) => fields.indexOf(a) - fields.indexOf(b));
}

function currentView() {
  return VIEWS[state.model.signatures[state.signature].view];
}

function currentValues() {
  const view = currentView();
  const inputs = state.model.signatures[state.signature].inputs;
  const given = [...new FormData(at("form"))].filter(([input, text]) => !(inputs[input].optional && text === ""));
  const fields = Object.fromEntries(given);
  if (view === VIEWS.json) {
    return Object.fromEntries(Object.entries(fields).map(([key, text]) => [key, JSON.parse(text)]));
  }
  return view.values ? view.values(fields, inputs) : fields;
}

function requestBody(values) {
  return {signature_name: state.signature, instances: [values].flat()};
}

function showRequest() {
  if (!backend.command) return;
  let body = "";
  try {
    body = JSON.stringify(requestBody(currentValues()), null, 1);
  } catch (error) {
    body = String(error.message);
  }
  at("request").textContent = backend.command(state.model, body);
}

async function predict(event) {
  event.preventDefault();
  const button = at("form").querySelector("button");
  const requested = [state.model, state.signature];
  at("error").hidden = true;
  button.disabled = true;
  try {
    const values = currentValues();
    const answer = await backend.predict(state.model, requestBody(values));
    if (state.model !== requested[0] || state.signature !== requested[1]) return;  // another tab was opened meanwhile
    at("response").textContent = JSON.stringify(answer, null, 1);
    at("result").replaceChildren();
    const shown = Array.isArray(values) ? answer.predictions : answer.predictions[0];
    currentView().show(shown, values, at("result"), state.model.signatures[state.signature].labels);
  } catch (error) {
    at("error").textContent = error.message;
    at("error").hidden = false;
  } finally {
    button.disabled = false;
  }
}

async function start() {
  at("form").addEventListener("submit", predict);
  at("programs").hidden = !backend.command;
  try {
    state.models = await backend.models();
    chooseModel(state.models[0].name);
  } catch (error) {
    at("description").textContent = "";
    at("error").textContent = `The models cannot be loaded: ${error.message}`;
    at("error").hidden = false;
  }
}

start();
