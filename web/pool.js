// The page Pool: what the server tells of itself, once a second.
import * as api from "./api.js";
import { find, h } from "./dom.js";
import * as format from "./format.js";
import { Sparkline } from "./sparkline.js";

const PERIOD_MS = 1000;

// Figures that grow are shown as what was new since the last look.
const FIGURES = [
  { id: "spares", name: "Boxes ready", value: (stats) => stats.spares, say: format.number, note: (stats) => `wanted: ${format.number(stats.target)}` },
  { id: "hits", name: "Found warm", value: (stats) => stats.share, say: (part) => (part === null ? "–" : `${Math.round(part * 100)} %`),
    note: (stats) => `${format.plural(stats.hits, "hit")} · ${format.plural(stats.misses, "miss", "misses")}` },
  { id: "latency", name: "Latency, median", value: (stats) => stats.p50, say: (ms) => (ms ? `≤ ${format.milliseconds(ms)}` : "–"),
    note: (stats) => (stats.p99 ? `99 of 100 within ${format.milliseconds(stats.p99)}` : "no runs yet") },
  { id: "rate", name: "Runs a second", rate: (stats) => stats.runs, say: format.number, note: (stats) => `${format.number(stats.runs)} since the start` },
  { id: "running", name: "Running now", value: (stats) => stats.running, say: format.number, note: (stats) => stats.runningNote },
  { id: "memory", name: "Memory of it all", value: (stats) => stats.memory, say: format.bytes, note: (stats) => stats.memoryNote },
];

const CAUSE_NAMES = { exit: "Ended by themselves", signal: "By a signal", wall_time: "Out of time", cpu_time: "Out of CPU time", memory: "Out of memory",
  pids: "Too many processes", disk: "Disk full", output: "Too much output", denied_syscall: "Forbidden call", cancelled: "Stopped", vetted: "Held back by the filter", host_failure: "The host failed" };

// The server's answer in the words of this page.
export function digest({ pool = {}, runs = {}, latency = {}, memory = {}, machine = {}, queue, connections, tenant }) {
  const { hits = 0, misses = 0 } = pool;
  return {
    hits, misses,
    kinds: (pool.kinds ?? []).filter((kind) => kind.spares || kind.target || kind.hits || kind.misses || kind.failure),
    spares: pool.spares ?? 0,
    target: pool.target ?? 0,
    share: hits + misses ? hits / (hits + misses) : null,
    runs: Object.values(runs).reduce((sum, count) => sum + count, 0),
    causes: Object.entries(runs).filter(([, count]) => count > 0),
    p50: latency.p50_ms,
    p99: latency.p99_ms,
    buckets: latency.buckets ?? [],
    running: queue?.running ?? pool.running ?? tenant?.quotas?.runs?.used ?? 0,
    runningNote: queue ? `${format.number(queue.waiting)} waiting` : connections === undefined ? "yours; the rest is for an operator's key" : format.plural(connections, "connection"),
    memory: (memory.server_bytes ?? 0) + (memory.keeper_bytes ?? 0) + (pool.spares ?? 0) * (pool.spare_bytes ?? 0),
    memoryNote: machine.memory_free_bytes ? `${format.bytes(machine.memory_free_bytes)} free on the machine` : "",
  };
}

function card(figure) {
  const value = h("span", { class: "figure-value" }, "–");
  const note = h("span", { class: "figure-note" });
  const spark = new Sparkline();
  const element = h("article", { class: "figure", dataset: { figure: figure.id } }, h("h2", {}, figure.name), value, note, spark.element);
  return { ...figure, element, valueElement: value, noteElement: note, spark };
}

function barRow(name, count, most) {
  const fill = h("span", { class: "bar-fill" });
  fill.style.width = `${count ? Math.max(1.5, (100 * count) / most) : 0}%`;
  return h("div", { class: "usage" }, h("span", { class: "usage-name" }, name), h("span", { class: "bar", "aria-hidden": "true" }, fill),
    h("span", { class: "usage-value" }, format.number(count)));
}

function panel(title, rows, nothing) {
  return h("section", { class: "panel" }, h("h2", {}, title), rows.length ? h("div", { class: "usages" }, rows) : h("p", { class: "muted" }, nothing));
}

// From the first to the last that has any, so that gaps in between are seen.
function latencyPanel(buckets) {
  const used = buckets.map((bucket) => bucket.runs > 0);
  const shown = buckets.slice(Math.max(0, used.indexOf(true)), used.lastIndexOf(true) + 1);
  const most = Math.max(...shown.map((bucket) => bucket.runs));
  const rows = used.includes(true) ? shown.map((bucket) => barRow(bucket.below_ms === null ? "more" : `≤ ${format.milliseconds(bucket.below_ms)}`, bucket.runs, most)) : [];
  return panel("How long runs took", rows, "Nothing has run yet.");
}

function causesPanel(causes) {
  const most = Math.max(...causes.map(([, count]) => count));
  const rows = causes.sort((one, other) => other[1] - one[1]).map(([cause, count]) => barRow(CAUSE_NAMES[cause] ?? cause, count, most));
  return panel("How they ended", rows, "Nothing has run yet.");
}

// The image, its set of modules where it is not the default one, and whether it fails.
function imageOf({ image, preload, failure }) {
  const name = [image ?? "–", preload && preload !== "default" ? preload : ""].filter(Boolean).join(" · ");
  return failure ? `${name} (fails)` : name;
}

function kindsPanel(kinds) {
  if (!kinds.length) return null;
  const columns = ["Kind", "Image", "Ready", "Wanted", "Hits", "Misses", "Memory of one"];
  return h("section", {}, h("h2", { class: "section-title" }, "Kinds of boxes"), h("div", { class: "table-card" }, h("div", { class: "table-scroll" }, h("table", { class: "kinds" },
    h("thead", {}, h("tr", {}, columns.map((name, at) => h("th", { scope: "col", class: at > 1 ? "number" : "" }, name)))),
    h("tbody", {}, kinds.map((kind) => h("tr", {}, h("th", { scope: "row" }, kind.kind), h("td", { title: kind.failure ?? "" }, imageOf(kind)),
      [format.number(kind.spares), format.number(kind.target), format.number(kind.hits), format.number(kind.misses), kind.spare_bytes ? format.bytes(kind.spare_bytes) : "–"]
        .map((text) => h("td", { class: "number" }, text)))))))));
}

export class PoolPage {
  constructor() {
    this.cards = FIGURES.map(card);
    find("#pool-figures").append(...this.cards.map(({ element }) => element));
  }

  show() {
    this.isShown = true;
    this.last = null;
    this.asked = false;
    this.#poll();
  }

  hide() {
    this.isShown = false;
    clearTimeout(this.timer);
  }

  async #poll() {
    clearTimeout(this.timer);
    const live = find("#pool-live");
    if (!document.hidden) {
      try {
        this.#draw(digest(await api.get("/v1/stats", { asks: !this.last && !this.asked })));
        live.className = "pool-live good";
        live.textContent = "live";
      } catch (error) {
        this.asked = true;
        live.className = "pool-live bad";
        live.textContent = api.wordsOf(error);
      }
    }
    if (this.isShown) this.timer = setTimeout(() => this.#poll(), PERIOD_MS);
  }

  #draw(stats) {
    const now = performance.now();
    for (const figure of this.cards) {
      let value = figure.value?.(stats);
      if (figure.rate) value = this.last ? ((figure.rate(stats) - figure.rate(this.last.stats)) * 1000) / (now - this.last.now) : 0;
      figure.valueElement.textContent = figure.say(figure.rate ? Math.round(value * 10) / 10 : value);
      figure.noteElement.textContent = figure.note(stats) || "";
      figure.spark.add(value ?? 0);
    }
    this.last = { stats, now };
    find("#pool-kinds").replaceChildren(h("div", { class: "panels" }, latencyPanel(stats.buckets), causesPanel(stats.causes)), kindsPanel(stats.kinds) ?? "");
  }
}
