// The server's API. Every answer is JSON, or a stream of events; every refusal becomes an ApiError.

const KEY = "cloche-key";

export class ApiError extends Error {
  constructor(status, told) {
    const { code = "failed", message, field, hint } = told?.error ?? {};
    super(message ?? `the server answered ${status}`);
    Object.assign(this, { status, code, field, hint });
  }

  // What is shown to people: the sentence, and what to do about it.
  get words() {
    const text = this.message.charAt(0).toUpperCase() + this.message.slice(1);
    return this.hint ? `${text}. ${this.hint}` : text;
  }
}

export function wordsOf(error) {
  if (error instanceof ApiError) return error.words;
  if (error instanceof TypeError) return "The server cannot be reached";
  return error.message;
}

export function apiKey() {
  return sessionStorage.getItem(KEY) ?? "";
}

export function setApiKey(key) {
  if (key) sessionStorage.setItem(KEY, key);
  else sessionStorage.removeItem(KEY);
}

// Asked once, however many requests are refused at the same time; resolves to true when there is a key to try.
let asker = async () => false;
let asking = null;

export function onUnauthorized(ask) {
  asker = ask;
}

function askForKey() {
  asking ??= asker().finally(() => {
    asking = null;
  });
  return asking;
}

function headersWith(extra) {
  const key = apiKey();
  return key ? { ...extra, Authorization: `Bearer ${key}` } : extra;
}

async function toldBy(response) {
  const text = await response.text();
  try {
    return JSON.parse(text);
  } catch {
    return { error: { message: text.trim().slice(0, 300) || `the server answered ${response.status}` } };
  }
}

// `asks` false: nobody is asked for a key, for what goes on by itself.
async function send(method, path, { json, body, headers = {}, signal, asks = true } = {}) {
  const content = json === undefined ? body : JSON.stringify(json);
  const typed = json === undefined ? headers : { ...headers, "Content-Type": "application/json" };
  for (;;) {
    const used = apiKey();
    const response = await fetch(path, { method, body: content, headers: headersWith(typed), signal, cache: "no-store" });
    if (response.ok) return response;
    const told = await toldBy(response);
    // Another request may have got a key meanwhile; then it is tried before anybody is asked.
    if (response.status === 401 && (apiKey() !== used || (asks && (await askForKey())))) continue;
    throw new ApiError(response.status, told);
  }
}

export async function get(path, options) {
  return (await send("GET", path, options)).json();
}

export async function post(path, json, options) {
  const response = await send("POST", path, { json, ...options });
  return response.status === 204 ? null : response.json();
}

export async function remove(path) {
  await send("DELETE", path);
}

// A file of the server's as a Blob: links cannot carry the key.
export async function blob(path) {
  return (await send("GET", path)).blob();
}

// A file of the playground itself: no key is needed, and what the browser has kept is asked for by its tag.
export async function asset(path) {
  const response = await fetch(path, { cache: "no-cache" });
  if (!response.ok) throw new ApiError(response.status, await toldBy(response));
  return response;
}

function parseEvent(block) {
  let event = "message";
  const data = [];
  for (const line of block.split("\n")) {
    if (line.startsWith("event:")) event = line.slice(6).trim();
    else if (line.startsWith("data:")) data.push(line.slice(line[5] === " " ? 6 : 5));
  }
  return data.length ? { event, data: JSON.parse(data.join("\n")) } : null;
}

// {event, data} as they come. A server that answers at once, without a stream, gives one `end`.
export async function* stream(path, json, signal) {
  const response = await send("POST", path, { json: { ...json, stream: true }, headers: { Accept: "text/event-stream" }, signal });
  if (!response.headers.get("Content-Type")?.startsWith("text/event-stream")) {
    yield { event: "end", data: await response.json() };
    return;
  }
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let waiting = []; // joined only when an event is whole: the last one may have megabytes
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    const seam = (waiting.at(-1)?.at(-1) ?? "") + value;
    waiting.push(value);
    if (!seam.includes("\n\n")) continue;
    const blocks = waiting.join("").split("\n\n");
    waiting = [blocks.pop()].filter(Boolean);
    for (const block of blocks) {
      const parsed = parseEvent(block);
      if (parsed) yield parsed;
    }
  }
}

// fetch tells nothing of what it has sent; XMLHttpRequest does.
function sendFile(path, file, onProgress, signal) {
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    request.open("PUT", path);
    for (const [name, value] of Object.entries(headersWith({}))) request.setRequestHeader(name, value);
    request.upload.onprogress = (event) => onProgress(event.lengthComputable ? event.loaded / event.total : 0);
    request.onload = () => {
      let told = null;
      try {
        told = JSON.parse(request.responseText);
      } catch { /* not every failure has a body */ }
      if (request.status < 300) resolve(told);
      else reject(new ApiError(request.status, told));
    };
    request.onerror = () => reject(new TypeError("not reached"));
    request.onabort = () => reject(new DOMException("stopped", "AbortError"));
    signal?.addEventListener("abort", () => request.abort());
    request.send(file);
  });
}

export async function upload(path, file, onProgress, signal) {
  try {
    return await sendFile(path, file, onProgress, signal);
  } catch (error) {
    if (error.status !== 401 || !(await askForKey())) throw error;
    return sendFile(path, file, onProgress, signal);
  }
}
