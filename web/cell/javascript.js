// JavaScript: the program is evaluated in the worker's own global scope. It has ended when its value is there and no timer of
// its is left.
const NAME = "program.js";
const timers = new Set();
let finish = null; // while it runs: told how it ended
let evaluated = null; // its value, in an array, when it is there
let bundleOf = null; // of rich.js

// Frames of ours, which know no sourceURL, stand at the end of a stack.
function stackOf(error) {
  const lines = String(error.stack ?? error).split("\n");
  const end = lines.findIndex((line) => /^ {4}at (.*blob:|eval \(<anonymous>\)$)/.test(line));
  return lines.slice(0, end < 0 ? lines.length : end).map((line) => line.replace(/at eval \((program\.js:\d+:\d+)\)/, "at $1")).join("\n");
}

// ---- what the program finds ----

function formatted(values) {
  const [first, ...rest] = values;
  if (typeof first !== "string") return values.map((value) => (typeof value === "string" ? value : inspect(value))).join(" ");
  const text = first.replace(/%([sdifjoOc%])/g, (mark, kind) => {
    if (kind === "%") return "%";
    if (!rest.length) return mark;
    const value = rest.shift();
    if (kind === "c") return "";
    if (kind === "s") return typeof value === "object" && value !== null ? inspect(value) : String(value);
    if (kind === "i") return String(parseInt(value, 10));
    if (kind === "d" || kind === "f") return String(Number(value));
    return kind === "j" ? JSON.stringify(value) : inspect(value);
  });
  return [text, ...rest.map((value) => (typeof value === "string" ? value : inspect(value)))].join(" ");
}

function offerConsole() {
  const writer = (kind) => (...values) => say(kind, `${values.length ? formatted(values) : ""}\n`);
  for (const name of ["log", "info", "debug", "dir", "table", "group"]) console[name] = writer("stdout");
  for (const name of ["warn", "error", "trace"]) console[name] = writer("stderr");
}

// Timers are counted, to know when nothing is left to be done.
function offerTimers() {
  const { setTimeout, clearTimeout, setInterval, clearInterval } = self;
  const once = (call) => (id) => {
    timers.delete(id);
    call(id);
    look();
  };
  self.setTimeout = (call, after, ...values) => {
    const id = setTimeout(() => {
      try {
        call(...values);
      } finally {
        timers.delete(id);
        look();
      }
    }, after);
    timers.add(id);
    return id;
  };
  self.setInterval = (call, every, ...values) => {
    const id = setInterval(call, every, ...values);
    timers.add(id);
    return id;
  };
  self.clearTimeout = once(clearTimeout);
  self.clearInterval = once(clearInterval);
}

// The same module as in a box, which is made for node.
function richModule(text) {
  const bytesOf = (data, kind, length) => {
    if (data instanceof ArrayBuffer) return new Uint8Array(data, kind, length);
    return kind === "base64" ? Uint8Array.from(atob(data), (letter) => letter.charCodeAt(0)) : new TextEncoder().encode(data);
  };
  const module = { exports: {} };
  new Function("module", "require", "Buffer", text)(module, () => ({ inspect }), { from: bytesOf });
  return module.exports;
}

async function prepare(parts) {
  const rich = richModule(parts["rich.js"]);
  rich.connect((kind, pairs) => show(false, pairs));
  const progress = rich.makeProgress((fraction, text) => tell({ kind: "progress", fraction, text }));
  self.cloche = { display: rich.display, progress, ...rich.kinds };
  self.display = rich.display;
  bundleOf = rich.bundle;
  self.close = () => finish?.({ status: "exit", exit_code: 0 }); // the worker's own would leave nobody to tell of it
  offerConsole();
  offerTimers();
}

// ---- a run ----

const parses = (head, code, tail) => {
  try {
    new Function(`${head}${code}\n${tail}`);
    return true;
  } catch {
    return false;
  }
};

// Later: of a promise that fails and that nobody looks after we are told only then.
function look() {
  later(() => later(conclude, 0), 0);
}

function conclude() {
  if (!finish || !evaluated || timers.size) return;
  const [value] = evaluated;
  if (value !== undefined) show(true, bundleOf(value));
  finish({ status: "ok" });
  finish = null;
}

function fail(error, place = "") {
  const isError = error instanceof Error;
  finish?.({ status: "error", error: { name: isError ? error.name : "Error", value: isError ? error.message : inspect(error),
    traceback: place + (isError ? stackOf(error) : `Uncaught ${inspect(error)}`) } });
}

// V8 tells where a text does not parse only to who loads it as a script: a worker, which then runs nothing of it.
function placeOf(code) {
  return new Promise((resolve) => {
    const probe = new Worker(URL.createObjectURL(new Blob([code], { type: "text/javascript" })));
    probe.onerror = (event) => {
      event.preventDefault();
      probe.terminate();
      const line = code.split("\n")[event.lineno - 1];
      resolve(line === undefined ? "" : `${NAME}:${event.lineno}\n${line}\n${" ".repeat(Math.max(0, event.colno - 1))}^\n\n`);
    };
  });
}

async function evaluate(code) {
  const head = "(async () => {"; // on the program's first line, so that lines keep their numbers
  const awaits = !parses("", code, "") && parses(head, code, "})");
  const text = awaits ? `${head}${code}\n})()` : code;
  try {
    evaluated = [await (0, eval)(`${text}\n//# sourceURL=${NAME}`)];
    look();
  } catch (error) {
    const isRead = !(error instanceof SyntaxError) || String(error.stack).includes(NAME); // it was thrown by the program
    fail(error, isRead ? "" : await placeOf(code));
  }
}

function run(code) {
  self.addEventListener("error", (event) => {
    event.preventDefault();
    fail(event.error);
  });
  self.addEventListener("unhandledrejection", (event) => {
    event.preventDefault();
    fail(event.reason);
  });
  return new Promise((resolve) => {
    finish = resolve;
    evaluate(code);
  });
}
