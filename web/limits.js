// Limits, isolation and the first filter, by controls with steps. What is left at the server's own default is not sent: a
// box that waits with the defaults serves it then.
import { button, find, h } from "./dom.js";
import { AUTO, BEFORE_IT_IS_KNOWN, askForEngines } from "./engines.js";
import { parseBytes, parseTime } from "./format.js";

const KEPT = "cloche-limits";

const ROWS = [
  { id: "memory", name: "Memory", inPage: ["python"], steps: ["64M", "128M", "256M", "512M", "1G", "2G", "4G"], normal: "512M",
    hint: "all processes together, and files in /tmp" },
  { id: "wall", name: "Time", inPage: ["python", "javascript"], steps: ["1s", "2s", "5s", "10s", "30s", "60s", "120s"], normal: "30s", hint: "from start to end" },
  { id: "cpu", name: "CPU time", steps: ["1s", "2s", "5s", "10s", "30s", "60s", "120s"], normal: "30s", hint: "all processes together" },
  { id: "cpus", name: "CPUs", steps: ["0.25", "0.5", "1", "2"], normal: "1", hint: "share of the machine's cores" },
];

const VETTING = [
  { id: "usual", name: "Usual", hint: "the server's own: warn, where it costs nothing" },
  { id: "off", name: "Off", hint: "the code is not looked at" },
  { id: "warn", name: "Warn", hint: "findings are told, and the code runs" },
  { id: "block", name: "Block", hint: "code with warnings does not run" },
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
    this.normal = { ...Object.fromEntries(ROWS.map((row) => [row.id, row.normal])), isolation: BEFORE_IT_IS_KNOWN.normal, vet: "usual" };
    this.values = { ...this.normal, ...this.#stored() };
    this.place = "server";
    this.#build();
    this.#offer(BEFORE_IT_IS_KNOWN);
    // The server proves its engines for an answer: it is asked when somebody wants to know.
    this.summary.addEventListener("click", () => this.#ask());
  }

  async #ask() {
    if (this.isAsked) return;
    this.isAsked = true;
    try {
      this.#offer(await askForEngines());
    } catch {
      this.isAsked = false; // another time
    }
  }

  // The engines that can be chosen. Who had left it at the default still has.
  #offer({ normal, engines }) {
    if (this.values.isolation === this.normal.isolation) this.values.isolation = normal;
    this.normal.isolation = normal;
    this.engines = engines;
    this.isolation.replaceChildren(h("legend", {}, "Isolation"),
      h("div", { class: "segmented" }, [AUTO, ...engines].map((kind) => this.#choice("isolation", kind))));
    this.setPlace(this.place, this.language, this.mode);
  }

  #choice(name, kind) {
    return h("label", { class: "choice", title: kind.hint, dataset: { choice: kind.id } },
      h("input", { type: "radio", name, value: kind.id, onchange: () => this.set({ [name]: kind.id }) }), h("span", {}, kind.name));
  }

  #stored() {
    try {
      const stored = JSON.parse(sessionStorage.getItem(KEPT) ?? "{}");
      const kept = Object.fromEntries(ROWS.filter((row) => row.steps.includes(stored[row.id])).map((row) => [row.id, stored[row.id]]));
      return VETTING.some(({ id }) => id === stored.vet) ? { ...kept, vet: stored.vet } : kept;
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
    this.panel.append(
      h("div", { class: "limit-rows" }, rows),
      this.isolation = h("fieldset", { class: "choices" }),
      this.vetting = h("fieldset", { class: "choices" }, h("legend", {}, "First filter"),
        h("div", { class: "segmented" }, VETTING.map((mode) => this.#choice("vet", mode)))),
      h("div", { class: "limit-foot" },
        h("div", { class: "row push" },
          button("Analyst", { kind: "small", label: "4 GB, 2 cores, 120 s: for data", onclick: () => this.set(ANALYST) }),
          button("Defaults", { kind: "small quiet", onclick: () => this.set(this.normal) }))));
  }

  // In a page there are fewer limits, and no engines. What a session runs is not looked at, and not every engine has sessions.
  setPlace(place, language, mode = "run") {
    this.place = place;
    this.language = language;
    this.mode = mode;
    for (const { row, element } of Object.values(this.inputs)) element.hidden = !this.#applies(row);
    this.isolation.hidden = place === "page";
    this.vetting.hidden = place === "page" || mode === "session";
    for (const { id, sessions } of [AUTO, ...this.engines]) find(`[data-choice=${id}]`, this.isolation).hidden = mode === "session" && !sessions;
    this.#show();
  }

  // The engine for where the next run is: one that was chosen for runs may have no sessions.
  get #engine() {
    const chosen = [AUTO, ...this.engines].find(({ id }) => id === this.values.isolation);
    return chosen && (this.mode !== "session" || chosen.sessions) ? chosen.id : this.normal.isolation;
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
    const chosen = { isolation: this.#engine, vet: this.values.vet };
    for (const radio of this.panel.querySelectorAll("input[type=radio]")) radio.checked = radio.value === chosen[radio.name];
    const told = ROWS.filter((row) => (row.id === "memory" || row.id === "wall") && this.#applies(row)).map((row) => spoken(row.id, this.values[row.id]));
    const filter = this.vetting.hidden || this.values.vet === this.normal.vet ? [] : [`filter: ${this.values.vet}`];
    find(".summary-text", this.summary).textContent = [...told, this.place === "page" ? "this page" : this.#engine, ...filter].join(" · ");
  }

  // The fields of a request.
  request() {
    const limits = Object.fromEntries(ROWS.filter((row) => this.values[row.id] !== row.normal)
      .map((row) => [row.id, row.id === "cpus" ? Number(this.values.cpus) : this.values[row.id]]));
    const fields = Object.keys(limits).length ? { limits } : {};
    if (this.#engine !== this.normal.isolation) fields.isolation = this.#engine;
    if (this.values.vet !== this.normal.vet && this.mode !== "session") fields.vet = this.values.vet;
    return fields;
  }

  // What usage is measured against.
  ceilings() {
    return { memory: parseBytes(this.values.memory), wall: parseTime(this.values.wall), cpu: parseTime(this.values.cpu) };
  }
}
