// How a run ended, in words, and what it used, as bars against its limits.
import { h } from "./dom.js";
import * as format from "./format.js";

const SIGNALS = { 1: "SIGHUP", 2: "SIGINT", 4: "SIGILL", 6: "SIGABRT", 7: "SIGBUS", 8: "SIGFPE", 9: "SIGKILL", 11: "SIGSEGV",
  13: "SIGPIPE", 14: "SIGALRM", 15: "SIGTERM", 24: "SIGXCPU", 25: "SIGXFSZ", 31: "SIGSYS" };

const CAUSES = {
  wall_time: (_, limits) => ["warn", "Out of time", `It was still running after ${format.milliseconds(limits.wall)}, the time that it was given.`],
  cpu_time: (_, limits) => ["warn", "Out of CPU time", `It had used the ${format.milliseconds(limits.cpu)} of CPU time that it was given.`],
  memory: (_, limits) => ["bad", "Out of memory", `It asked for more than the ${format.bytes(limits.memory)} that it was given.`],
  pids: () => ["bad", "Too many processes", "It reached the limit of processes and threads."],
  disk: () => ["bad", "Disk full", "It filled the space that it was given in /tmp, home and /data/output."],
  output: () => ["bad", "Too much output", "It wrote far more than is kept of its output."],
  denied_syscall: (result) => ["bad", "Ended for a forbidden call",
    `It made the system call ${result.denied_syscall || "that"} ends a box: break-outs are made of it.`],
  trap: (result) => ["bad", "Ended by a trap", `The WebAssembly machine stopped it: ${result.trap || result.detail || "it did what it may not"}.`],
  vetted: (result) => ["warn", "Did not run", `${result.detail ? result.detail.charAt(0).toUpperCase() + result.detail.slice(1) : "The first filter blocked it"}.`],
  cancelled: () => ["plain", "Stopped", "You stopped it."],
  host_failure: () => ["bad", "The host failed", "This is not the program's fault."],
  browser: () => ["bad", "The browser ended it", "It does not answer any more: most likely it took too much memory."],
  lifetime: () => ["warn", "The session's time is over", "A session lives for as long as it was given."],
  idle: () => ["warn", "The session was idle", "It ended by itself."],
};

const CONTEXT_STATUS = {
  ok: () => ["good", "Done", ""],
  error: (result) => ["bad", result.error?.name ? `Ended with ${result.error.name}` : "Failed", ""],
  exit: (result) => [result.exit_code ? "bad" : "good", `Exited with code ${result.exit_code ?? 0}`, ""],
  interrupted: () => ["plain", "Interrupted", "The session goes on: its variables are as they were when it was interrupted."],
};

function describeCompile(result) {
  const failed = result.compile && (result.compile.exit_code !== 0 || result.compile.cause !== "exit");
  return failed ? ["bad", "Did not compile", "The compiler's words are in the output."] : null;
}

function describeExit(result) {
  if (result.exit_code === 0) return ["good", "Done", ""];
  return ["bad", `Exited with code ${result.exit_code}`, ""];
}

// [tone, title, sentence] for a result of /v1/run or of a run in a sandbox.
export function describe(result, limits) {
  const compiled = describeCompile(result);
  if (compiled) return compiled;
  if (result.cause === "signal") {
    const name = SIGNALS[result.signal] ?? `signal ${result.signal}`;
    return ["bad", `Ended by ${name}`, result.detail ?? "A signal ended the program."];
  }
  if (CAUSES[result.cause] && !(result.status === "interrupted" && result.cause === "cancelled")) {
    const [tone, title, sentence] = CAUSES[result.cause](result, limits);
    const lost = result.died ? " The session's box is gone with it." : "";
    return [tone, title, (result.detail && result.cause === "host_failure" ? result.detail : sentence) + lost];
  }
  if (result.died) return ["bad", "The interpreter ended", result.detail ?? "The session's box is gone with it."];
  if (result.status) return CONTEXT_STATUS[result.status]?.(result) ?? ["plain", result.status, ""];
  return describeExit(result);
}

function bar(name, used, most, text) {
  const part = most ? Math.min(1, used / most) : 0;
  const fill = h("span", { class: `bar-fill${part >= 0.98 ? " full" : part >= 0.8 ? " high" : ""}` });
  fill.style.width = `${Math.max(part * 100, used > 0 ? 1 : 0)}%`;
  return h("div", { class: "usage" },
    h("span", { class: "usage-name" }, name),
    h("span", { class: "bar", role: "meter", "aria-label": name, "aria-valuemin": 0, "aria-valuemax": 100,
      "aria-valuenow": Math.round(part * 100), "aria-valuetext": text }, fill),
    h("span", { class: "usage-value" }, text));
}

function usageBars(usage, limits) {
  const parts = [usage.cpu_user_ms, usage.cpu_system_ms].filter((part) => part !== undefined); // none of them in a page
  const cpu = usage.cpu_ms ?? (parts.length ? parts.reduce((sum, part) => sum + part) : undefined);
  const rows = [
    ["Time", usage.wall_ms, limits.wall, format.milliseconds],
    ["CPU", cpu, limits.cpu, format.milliseconds],
    ["Memory", usage.peak_memory_bytes, limits.memory, format.bytes],
  ];
  return h("div", { class: "usages" }, rows.filter(([, used]) => used !== undefined && used !== null)
    .map(([name, used, most, say]) => bar(name, used, most, most ? `${say(used)} of ${say(most)}` : say(used))));
}

function layersOf(result) {
  const layers = Array.isArray(result.layers) ? result.layers : Object.entries(result.layers ?? {}).map(([name, told]) => ({ name, ...told }));
  if (!layers.length) return null;
  const active = layers.filter((layer) => layer.active);
  return h("details", { class: "layers" },
    h("summary", {}, `${active.length} of ${layers.length} layers of isolation were on, each proved before the start`),
    h("ul", {}, layers.map((layer) => h("li", { class: layer.active ? "" : "off" },
      h("span", { class: "layer-name" }, String(layer.name).replaceAll("_", " ")), h("span", { class: "muted" }, layer.detail ?? "")))));
}

// What must be known of this run, as pairs of a word and a sentence.
function notesOf({ notes }) {
  return notes && h("details", { class: "layers" }, h("summary", {}, notes.title),
    h("dl", { class: "notes" }, notes.rows.map(([word, sentence]) => h("div", {}, h("dt", {}, word), h("dd", {}, sentence)))));
}

// Which engine the server took, and why.
function choiceOf({ chosen, isolation }) {
  return chosen && h("p", { class: "outcome-text chosen" }, h("strong", {}, `Auto chose ${isolation}`), `: ${chosen}`);
}

// While it runs: what it has used so far.
export function liveCard(usage, limits) {
  const soFar = { ...usage, peak_memory_bytes: usage.memory_bytes };
  return h("section", { class: "outcome live", "aria-label": "What it uses" }, usageBars(soFar, limits));
}

// The whole card below the output.
export function outcomeCard(result, limits) {
  const [tone, title, sentence] = describe(result, limits);
  const facts = result.cause === "vetted" ? [] : [result.isolation, result.usage?.peak_pids && `${format.plural(result.usage.peak_pids, "process", "processes")} at most`,
    result.usage?.disk_bytes && `${format.bytes(result.usage.disk_bytes)} written`].filter(Boolean);
  return h("section", { class: `outcome ${tone}`, "aria-label": "How it ended" },
    h("div", { class: "outcome-head" }, h("span", { class: "dot" }), h("strong", { class: "outcome-title" }, title),
      h("span", { class: "outcome-facts" }, facts.join(" · "))),
    sentence && h("p", { class: "outcome-text" }, sentence),
    choiceOf(result),
    result.usage && result.cause !== "vetted" && usageBars(result.usage, limits), // that would be its reader's
    result.cause !== "vetted" && layersOf(result),
    notesOf(result));
}
