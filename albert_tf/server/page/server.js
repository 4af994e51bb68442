// The models of the server that the page comes from. page.js imports it as backend.js.

// Without a slash at the start, so that a proxy can serve the page below a path of its own.
const path = (model) => `v1/models/${encodeURIComponent(model.name)}:predict`;

export async function models() {
  return (await (await fetch("v1/models")).json()).models;
}

// The answer to a request {signature_name, instances}.
export async function predict(model, request) {
  const response = await fetch(path(model), {method: "POST", body: JSON.stringify(request)});
  const answer = await response.json();
  if (answer.error) throw new Error(answer.error);
  return answer;
}

// How another program sends a request.
export function command(model, body) {
  return `curl ${new URL(path(model), location.href)} -d @- <<'END'\n${body}\nEND`;
}
