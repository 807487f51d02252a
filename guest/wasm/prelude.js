// What JavaScript in the wasm engine has beside the language: made here from one host function, say(kind, text).
(function (say, given) {
  "use strict";
  const global = globalThis;
  const { stringify } = JSON;

  function name(key) {
    if (typeof key === "symbol") return `[${String(key)}]`;
    return /^[A-Za-z_$][\w$]*$/.test(key) ? key : stringify(key);
  }

  function entries(value, depth, seen) {
    if (Array.isArray(value)) return value.map((item) => inspect(item, depth + 1, seen));
    if (value instanceof Map) return [...value].map(([key, item]) => `${inspect(key, depth + 1, seen)} => ${inspect(item, depth + 1, seen)}`);
    if (value instanceof Set) return [...value].map((item) => inspect(item, depth + 1, seen));
    if (ArrayBuffer.isView(value) && !(value instanceof DataView)) return Array.from(value.subarray ? value.subarray(0, 100) : [], String);
    return Reflect.ownKeys(value).filter((key) => Object.getOwnPropertyDescriptor(value, key)?.enumerable)
      .map((key) => `${name(key)}: ${inspect(value[key], depth + 1, seen)}`);
  }

  function inspect(value, depth = 0, seen = []) {
    if (typeof value === "string") return depth ? `'${value.replaceAll("\\", "\\\\").replaceAll("'", "\\'").replaceAll("\n", "\\n")}'` : value;
    if (typeof value === "bigint") return `${value}n`;
    if (Object.is(value, -0)) return "-0";
    if (value === null || (typeof value !== "object" && typeof value !== "function")) return String(value);
    if (typeof value === "function") return value.name ? `[Function: ${value.name}]` : "[Function (anonymous)]";
    if (value instanceof Error) return told(value);
    if (value instanceof Date) return Number.isNaN(value.getTime()) ? "Invalid Date" : value.toISOString();
    if (value instanceof RegExp) return String(value);
    if (value instanceof Promise) return "Promise {}";
    if (seen.includes(value)) return "[Circular *1]";
    const kind = value.constructor?.name ?? "[Object: null prototype]";
    const isList = Array.isArray(value);
    const plain = isList ? kind === "Array" : kind === "Object";
    if (depth > 2) return isList ? "[Array]" : `[${kind}]`;
    const parts = entries(value, depth, [...seen, value]);
    const [open, close] = isList || ArrayBuffer.isView(value) ? ["[", "]"] : ["{", "}"];
    const sized = value instanceof Map || value instanceof Set ? `(${value.size})` : isList || !ArrayBuffer.isView(value) ? "" : `(${value.length})`;
    const head = plain ? "" : `${kind}${sized} `;
    if (!parts.length) return `${head}${open}${close}`;
    const line = `${head}${open} ${parts.join(", ")} ${close}`;
    const space = "  ".repeat(depth + 1);
    return line.length <= 76 ? line : `${head}${open}\n${space}${parts.join(`,\n${space}`)}\n${"  ".repeat(depth)}${close}`;
  }

  function told(error) {
    if (!(error instanceof Error)) return `Uncaught ${inspect(error, 1)}`;
    const stack = String(error.stack ?? "").trimEnd();
    return `${error.name}: ${error.message}${stack ? `\n${stack}` : ""}`;
  }

  function format(values) {
    if (typeof values[0] !== "string" || !values[0].includes("%")) return values.map((value) => inspect(value)).join(" ");
    const rest = values.slice(1);
    const text = values[0].replace(/%[sdifjoO%]/g, (mark) => {
      if (mark === "%%") return "%";
      if (!rest.length) return mark;
      const value = rest.shift();
      if (mark === "%s") return inspect(value);
      if (mark === "%j") return stringify(value);
      if (mark === "%d" || mark === "%f") return String(Number(value));
      return mark === "%i" ? String(parseInt(value, 10)) : inspect(value, 1);
    });
    return [text, ...rest.map((value) => inspect(value))].join(" ");
  }

  const writer = (kind) => (...values) => { say(kind, `${format(values)}\n`); };
  const [log, error] = [writer("stdout"), writer("stderr")];
  global.console = { log, info: log, debug: log, error, warn: error, trace: error, table: log,
    assert: (holds, ...values) => { if (!holds) error("Assertion failed", ...values); } };
  global.print = log;

  // Timers: what is due next, in order; ask() says how long to wait, and due() calls it.
  let number = 0;
  let timers = [];
  const now = () => Date.now();
  function add(call, wait, every, values) {
    if (typeof call !== "function") throw new TypeError("a timer needs a function");
    const pause = Math.max(1, Number(wait) || 0);
    timers.push({ number: ++number, at: now() + pause, every: every ? pause : 0, call, values });
    return number;
  }
  const drop = (which) => { timers = timers.filter((timer) => timer.number !== which); };
  global.setTimeout = (call, wait, ...values) => add(call, wait, false, values);
  global.setInterval = (call, wait, ...values) => add(call, wait, true, values);
  global.setImmediate = (call, ...values) => add(call, 0, false, values);
  global.clearTimeout = global.clearInterval = global.clearImmediate = drop;
  if (!global.queueMicrotask) global.queueMicrotask = (call) => { Promise.resolve().then(call); };

  global.process = {
    argv: ["javascript", ...given.arguments], env: given.environment, platform: "wasi", exitCode: undefined,
    exit: (code = global.process.exitCode ?? 0) => { say("exit", String(Number(code) & 255)); throw new Error("exit"); },
    stdout: { write: (text) => { say("stdout", String(text)); return true; } },
    stderr: { write: (text) => { say("stderr", String(text)); return true; } },
    nextTick: (call, ...values) => queueMicrotask(() => call(...values)),
    cwd: () => "/",
  };

  return {
    told: (reason) => say("stderr", `${told(reason)}\n`),
    // Milliseconds until something is due; -1: nothing will be.
    ask: () => (timers.length ? Math.max(0, Math.min(...timers.map((timer) => timer.at)) - now()) : -1),
    due: () => {
      const time = now();
      const next = timers.filter((timer) => timer.at <= time).sort((one, other) => one.at - other.at || one.number - other.number)[0];
      if (!next) return;
      if (next.every) next.at = time + next.every;
      else drop(next.number);
      next.call(...next.values);
    },
    code: () => Number(global.process.exitCode ?? 0) & 255,
  };
})
