// The page Pool: what the server tells of itself, once a second.
import * as api from "./api.js";
import { find, h } from "./dom.js";
import * as format from "./format.js";
import { Sparkline } from "./sparkline.js";

const PERIOD_MS = 1000;

// Figures that grow are shown as what was new since the last look.
const FIGURES = [
  { id: "spares", name: "Spares ready", value: (stats) => stats.spares, say: format.number, note: (stats) => `of ${format.plural(stats.kinds.length, "kind")}` },
  { id: "runs", name: "Runs a second", rate: (stats) => stats.runs, say: format.number, note: (stats) => `${format.number(stats.runs)} in all` },
  { id: "hits", name: "Found warm", value: (stats) => stats.share, say: (part) => (part === null ? "–" : `${Math.round(part * 100)} %`),
    note: (stats) => `${format.number(stats.hits)} hits · ${format.number(stats.misses)} misses` },
  { id: "latency", name: "Latency, median", value: (stats) => stats.p50, say: format.milliseconds, note: (stats) => `99 of 100 within ${format.milliseconds(stats.p99)}` },
  { id: "boxes", name: "Live boxes", value: (stats) => stats.boxes, say: format.number, note: (stats) => stats.boxNote },
  { id: "memory", name: "Memory of the boxes", value: (stats) => stats.memory, say: format.bytes, note: (stats) => stats.memoryNote },
];

// The server's answer in the words of this page.
export function digest(told) {
  const kinds = told.pool?.kinds ?? told.kinds ?? [];
  const sum = (name) => kinds.reduce((total, kind) => total + (kind[name] ?? 0), 0);
  const hits = told.pool?.hits ?? sum("hits");
  const misses = told.pool?.misses ?? sum("misses");
  return {
    kinds, hits, misses,
    spares: told.pool?.spares ?? sum("spares"),
    share: hits + misses ? hits / (hits + misses) : null,
    runs: told.runs?.total ?? hits + misses,
    p50: told.latency?.p50_ms ?? null,
    p99: told.latency?.p99_ms ?? null,
    boxes: told.boxes?.live ?? 0,
    boxNote: "",
    memory: told.memory?.boxes_bytes ?? 0,
    memoryNote: "",
  };
}

function card(figure) {
  const value = h("span", { class: "figure-value" }, "–");
  const note = h("span", { class: "figure-note" });
  const spark = new Sparkline();
  const element = h("article", { class: "figure", dataset: { figure: figure.id } }, h("h2", {}, figure.name), value, note, spark.element);
  return { ...figure, element, valueElement: value, noteElement: note, spark };
}

export class PoolPage {
  constructor() {
    this.cards = FIGURES.map(card);
    find("#pool-figures").append(...this.cards.map(({ element }) => element));
  }

  show() {
    this.isShown = true;
    this.last = null;
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
        this.#draw(digest(await api.get("/v1/stats")));
        live.className = "pool-live good";
        live.textContent = "live";
      } catch (error) {
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
    this.#drawKinds(stats.kinds);
  }

  #drawKinds(kinds) {
    const place = find("#pool-kinds");
    if (!kinds.length) {
      place.replaceChildren();
      return;
    }
    const columns = ["Kind", "Ready", "Hits", "Misses", "Idle memory"];
    place.replaceChildren(h("h2", { class: "section-title" }, "Kinds of boxes"), h("div", { class: "table-card" }, h("div", { class: "table-scroll" }, h("table", { class: "kinds" },
      h("thead", {}, h("tr", {}, columns.map((name, at) => h("th", { scope: "col", class: at ? "number" : "" }, name)))),
      h("tbody", {}, kinds.map((kind) => h("tr", {}, h("th", { scope: "row" }, kind.name ?? kind.kind ?? "?"),
        [format.number(kind.spares), format.number(kind.hits), format.number(kind.misses), format.bytes(kind.memory_bytes)]
          .map((text) => h("td", { class: "number" }, text)))))))));
  }
}
