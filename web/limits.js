// Limits and isolation, by controls with steps. What is left at the server's own default is not sent: a box that waits
// with the defaults serves it then.
import { button, find, h } from "./dom.js";
import { parseBytes, parseTime } from "./format.js";

const KEPT = "cloche-limits";

const ROWS = [
  { id: "memory", name: "Memory", inPage: ["python"], steps: ["64M", "128M", "256M", "512M", "1G", "2G", "4G"], normal: "512M",
    hint: "all processes together, and files in /tmp" },
  { id: "wall", name: "Time", inPage: ["python", "javascript"], steps: ["1s", "2s", "5s", "10s", "30s", "60s", "120s"], normal: "30s", hint: "from start to end" },
  { id: "cpu", name: "CPU time", steps: ["1s", "2s", "5s", "10s", "30s", "60s", "120s"], normal: "30s", hint: "all processes together" },
  { id: "cpus", name: "CPUs", steps: ["0.25", "0.5", "1", "2"], normal: "1", hint: "share of the machine's cores" },
];

const ISOLATION = [
  { id: "container", name: "Container", hint: "namespaces, a root of its own, every layer" },
  { id: "process", name: "Process", hint: "no namespaces; where containers cannot be made" },
];

const ANALYST = { memory: "4G", wall: "120s", cpu: "120s", cpus: "2" };

// "512M" → "512 MB", "30s" → "30 s"
export function spoken(id, value) {
  if (id === "memory") return value.replace(/([MG])$/, " $1B");
  if (id === "cpus") return value === "1" ? "1 core" : `${value} cores`;
  return value.replace(/s$/, " s");
}

export class Limits {
  constructor(panel, summary, onChange) {
    this.panel = panel;
    this.summary = summary;
    this.onChange = onChange;
    this.normal = { ...Object.fromEntries(ROWS.map((row) => [row.id, row.normal])), isolation: "container" };
    this.values = { ...this.normal, ...this.#stored() };
    this.place = "server";
    this.#build();
    this.#show();
  }

  #stored() {
    try {
      const stored = JSON.parse(sessionStorage.getItem(KEPT) ?? "{}");
      return Object.fromEntries(ROWS.filter((row) => row.steps.includes(stored[row.id])).map((row) => [row.id, stored[row.id]]));
    } catch {
      return {};
    }
  }

  #build() {
    this.inputs = {};
    const rows = ROWS.map((row) => {
      const output = h("output", { class: "limit-value", id: `limit-${row.id}-value` });
      const input = h("input", { type: "range", id: `limit-${row.id}`, min: 0, max: row.steps.length - 1, step: 1,
        oninput: () => this.set({ [row.id]: row.steps[input.value] }) });
      const element = h("div", { class: "limit" }, h("label", { for: `limit-${row.id}`, title: row.hint }, row.name), output, input);
      this.inputs[row.id] = { input, output, row, element };
      return element;
    });
    const choices = ISOLATION.map((kind) => h("label", { class: "choice", title: kind.hint },
      h("input", { type: "radio", name: "isolation", value: kind.id, onchange: () => this.set({ isolation: kind.id }) }),
      h("span", {}, kind.name)));
    this.panel.append(
      h("div", { class: "limit-rows" }, rows),
      h("div", { class: "limit-foot" },
        this.isolation = h("fieldset", { class: "segmented" }, h("legend", { class: "sr-only" }, "Isolation"), choices),
        h("div", { class: "row" },
          button("Analyst", { kind: "small", label: "4 GB, 2 cores, 120 s: for data", onclick: () => this.set(ANALYST) }),
          button("Defaults", { kind: "small quiet", onclick: () => this.set(this.normal) }))));
  }

  // In a page there are fewer limits, and no engines.
  setPlace(place, language) {
    this.place = place;
    this.language = language;
    for (const { row, element } of Object.values(this.inputs)) element.hidden = !this.#applies(row);
    this.isolation.hidden = place === "page";
    this.#show();
  }

  #applies(row) {
    return this.place === "server" || Boolean(row.inPage?.includes(this.language));
  }

  set(values) {
    Object.assign(this.values, values);
    sessionStorage.setItem(KEPT, JSON.stringify(this.values));
    this.#show();
    this.onChange?.();
  }

  #show() {
    for (const { input, output, row } of Object.values(this.inputs)) {
      const value = this.values[row.id];
      const at = Math.max(0, row.steps.indexOf(value));
      input.value = String(at);
      input.style.setProperty("--part", `${(100 * at) / (row.steps.length - 1)}%`);
      input.setAttribute("aria-valuetext", spoken(row.id, value));
      output.textContent = spoken(row.id, value);
      output.classList.toggle("changed", value !== row.normal);
    }
    for (const radio of this.panel.querySelectorAll("input[type=radio]")) radio.checked = radio.value === this.values.isolation;
    const told = ROWS.filter((row) => (row.id === "memory" || row.id === "wall") && this.#applies(row)).map((row) => spoken(row.id, this.values[row.id]));
    find(".summary-text", this.summary).textContent = [...told, this.place === "page" ? "this page" : this.values.isolation].join(" · ");
  }

  // The fields of a request.
  request() {
    const limits = Object.fromEntries(ROWS.filter((row) => this.values[row.id] !== row.normal)
      .map((row) => [row.id, row.id === "cpus" ? Number(this.values.cpus) : this.values[row.id]]));
    const fields = Object.keys(limits).length ? { limits } : {};
    if (this.values.isolation !== this.normal.isolation) fields.isolation = this.values.isolation;
    return fields;
  }

  // What usage is measured against.
  ceilings() {
    return { memory: parseBytes(this.values.memory), wall: parseTime(this.values.wall), cpu: parseTime(this.values.cpu) };
  }
}
