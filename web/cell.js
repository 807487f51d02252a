// Programs that run in this page: each in a cell of its own, a frame of no origin with a worker in it (cell/frame.html has its
// theory of operation). The page hands over what the program needs, shows what it says, and removes the frame at its end.
import * as api from "./api.js";
import { h } from "./dom.js";

const ASSETS = new URL("./", import.meta.url).pathname;
const KEEPS = 1 << 20; // characters of each stream
const LOAD_MS = 60000;
const PING_MS = 1000;
const SILENT_MS = 8000; // a frame that does not answer for so long is gone with its process

const text = async (path) => (await api.asset(ASSETS + path)).text();
const bytes = async (path) => (await api.asset(ASSETS + path)).arrayBuffer();

const KINDS = {
  python: {
    name: "Python",
    scripts: ["cell/worker.js", "cell/python.js"],
    parts: {
      "pyodide.mjs": () => text("pyodide/pyodide.mjs"),
      "pyodide.asm.mjs": () => text("pyodide/pyodide.asm.mjs"),
      "pyodide.asm.wasm": () => bytes("pyodide/pyodide.asm.wasm"),
      "python_stdlib.zip": () => bytes("pyodide/python_stdlib.zip"),
      "pyodide-lock.json": async () => JSON.stringify({ ...JSON.parse(await text("pyodide/pyodide-lock.json")), packages: {} }), // none are served
      "cloche/page.py": () => text("cell/page.py"),
      ...Object.fromEntries(["__init__", "execute", "reporting", "rich"].map((name) => [`cloche/${name}.py`, () => text(`guest/python/cloche/${name}.py`)])),
    },
  },
  javascript: {
    name: "JavaScript",
    scripts: ["cell/worker.js", "cell/inspect.js", "cell/javascript.js"],
    parts: { "rich.js": () => text("guest/javascript/cloche/rich.js") },
  },
};

// What is not as on the server; shown with every result.
const DIFFERENCES = {
  both: [
    ["Isolation", "your browser's own: a worker in a frame of no origin. No box, none of the server's layers"],
    ["Network", "none: neither elsewhere nor to this server"],
    ["Files", "none of yours are given to it, and what it writes is gone with it"],
    ["Limits", "time and output; not CPU time, not cores"],
  ],
  python: [
    ["Python", "CPython built for WebAssembly (Pyodide), slower than the server's, and of another version"],
    ["Packages", "the standard library, and none of what needs processes, threads or sockets"],
    ["Memory", "the limit is the interpreter's, and it gets a MemoryError there"],
  ],
  javascript: [
    ["JavaScript", "your browser's, not node: no require, no process"],
    ["Memory", "your browser's own limits"],
  ],
};

export function differencesOf(language) {
  return [...DIFFERENCES.both, ...DIFFERENCES[language]];
}

class Cell {
  constructor(language, memory) {
    this.language = language;
    this.memory = memory;
    this.frame = h("iframe", { class: "cell", sandbox: "allow-scripts", src: `${ASSETS}cell/frame.html`, title: "A program that runs in this page",
      referrerpolicy: "no-referrer", "aria-hidden": "true", tabindex: "-1", hidden: true });
    this.ready = this.#open();
    this.ready.catch(() => this.close()); // told to who waits for it
  }

  async #open() {
    const kind = KINDS[this.language];
    const loaded = new Promise((resolve) => this.frame.addEventListener("load", resolve, { once: true }));
    document.body.append(this.frame);
    const [scripts, parts] = await Promise.all([
      Promise.all(kind.scripts.map(text)),
      Promise.all(Object.entries(kind.parts).map(async ([name, load]) => [name, await load()])), loaded]);
    if (!this.frame.isConnected) throw new DOMException("stopped", "AbortError");
    const given = Object.fromEntries(parts);
    const { port1, port2 } = new MessageChannel();
    this.port = port1;
    const answer = new Promise((resolve, reject) => {
      port1.onmessage = ({ data }) => {
        if (data.kind === "ready") resolve();
        else if (data.kind === "failed") reject(new Error(`${kind.name} did not start: ${data.words}`));
      };
      setTimeout(() => reject(new Error(`${kind.name} was not ready after ${LOAD_MS / 1000} s`)), LOAD_MS);
    });
    this.frame.contentWindow.postMessage(null, "*", [port2]); // it has no origin that could be named
    port1.postMessage({ kind: "open", script: scripts.join("\n"), parts: { ...given, memory_bytes: this.memory }, keeps: KEEPS },
      Object.values(given).filter((part) => part instanceof ArrayBuffer));
    await answer;
  }

  // What it says goes to `take`; resolves to how it ended by itself, or to null when the frame is gone.
  run(code, take) {
    return new Promise((resolve) => {
      let heard = performance.now();
      this.pinging = setInterval(() => {
        if (performance.now() - heard > SILENT_MS) resolve(null);
        else this.port.postMessage({ kind: "ping" });
      }, PING_MS);
      this.port.onmessage = ({ data }) => {
        heard = performance.now();
        if (data.kind === "events") for (const event of data.events) take(event);
        else if (data.kind === "end") resolve(data.end);
      };
      this.port.postMessage({ kind: "run", code });
    });
  }

  close() {
    clearInterval(this.pinging);
    this.port?.close(); // what was on its way is not heard any more
    this.frame.remove(); // its worker ends with it
  }
}

// An interpreter that takes a second to load is loaded before it is asked for.
let spare = null;

export function prepare(language, { memory }) {
  if (spare?.language === language && spare.memory === memory) return;
  spare?.close();
  spare = language === "python" ? new Cell(language, memory) : null;
}

export function forget() {
  spare?.close();
  spare = null;
}

function takeCell(language, memory) {
  const fits = spare?.language === language && spare.memory === memory && spare.frame.isConnected;
  const cell = fits ? spare : new Cell(language, memory);
  if (!fits) spare?.close(); // two would be loaded at once
  spare = null;
  return cell;
}

const after = (milliseconds, value) => new Promise((resolve) => setTimeout(resolve, milliseconds, value));

// As `execute` in execute.js, without the server.
export async function executeInPage(language, code, { record, on, signal, ceilings }) {
  const cell = takeCell(language, ceilings.memory);
  const stopped = new Promise((resolve) => signal.addEventListener("abort", () => resolve({ cause: "cancelled" })));
  const page = { isolation: "this page", notes: { title: "It ran in this page: what is not as on the server", rows: differencesOf(language) } };
  try {
    on("loading", { name: KINDS[language].name });
    const early = await Promise.race([cell.ready, stopped]);
    if (early) {
      record.result = { ...page, ...early };
      return;
    }
    on("started", {});
    const started = performance.now();
    const usage = () => ({ wall_ms: performance.now() - started });
    const showing = setInterval(() => on("progress", usage()), 200);
    const end = await Promise.race([cell.run(code, take), stopped, after(ceilings.wall, { cause: "wall_time" })]);
    clearInterval(showing);
    const { memory_bytes: memory, ...told } = end ?? { cause: "browser" };
    record.result = { ...page, ...told, usage: { ...usage(), ...(memory ? { peak_memory_bytes: memory } : {}) } };
  } catch (error) {
    if (error.name !== "AbortError") record.failure = { title: "Not possible here", words: api.wordsOf(error) };
  } finally {
    cell.close();
  }

  function take({ kind, ...event }) {
    if (kind === "progress") on(kind, event);
    else {
      const payload = kind === "result" ? event : event.text;
      record.add(kind, payload);
      on(kind, payload);
    }
  }
}
