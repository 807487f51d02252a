// Editor, controls and output, as both pages that run code use them: Run (a box for each run) and Session (one that stays).
import { find, h, notify } from "./dom.js";
import { Editor } from "./editor.js";
import { LANGUAGES, PAGE_EXAMPLES, RUN_EXAMPLES, SESSION_EXAMPLES, languageOf } from "./examples.js";
import { Limits } from "./limits.js";
import { OutputView } from "./output.js";
import * as format from "./format.js";

const KEPT = "cloche-code";

function storedCode() {
  try {
    return JSON.parse(localStorage.getItem(KEPT) ?? "{}");
  } catch {
    return {};
  }
}

export class Workbench {
  constructor({ onRun, onStop, onLanguage, onPlace }) {
    this.mode = "run";
    this.chosenPlace = "server";
    this.code = storedCode();
    this.languages = { run: "python", session: "python" };
    this.buttons = { run: find("#run"), stop: find("#stop"), copy: find("#copy-output") };
    this.state = find("#run-state");
    this.output = new OutputView(find("#output"), { foot: find("#outcome"), onPlace: ({ line, column }) => this.editor.goTo(line, column) });
    this.editor = new Editor(find("#editor"), { onRun: () => this.press(), onChange: (text) => this.#keep(text) });
    this.limits = new Limits(find("#limit-controls"), find("#limits > summary"));
    this.onRun = onRun;
    this.onStop = onStop;
    this.onLanguage = onLanguage;
    this.#bind();
    this.setMode("run");
    this.onPlace = onPlace; // the pages are not there before
  }

  #bind() {
    this.buttons.run.addEventListener("click", () => this.press());
    this.buttons.stop.addEventListener("click", () => this.onStop());
    this.buttons.copy.addEventListener("click", () => this.#copy());
    this.languageSelect = find("#language");
    this.exampleSelect = find("#examples");
    this.placeSelect = find("#place");
    this.placeSelect.addEventListener("change", () => this.setPlace(this.placeSelect.value));
    this.languageSelect.addEventListener("change", () => this.setLanguage(this.languageSelect.value));
    this.exampleSelect.addEventListener("change", () => this.#useExample());
    // A panel over the page closes when the attention is elsewhere.
    const panel = find("#limits");
    document.addEventListener("pointerdown", (event) => {
      if (!panel.contains(event.target)) panel.open = false;
    });
    panel.addEventListener("keydown", (event) => {
      if (event.key !== "Escape") return;
      panel.open = false;
      find("summary", panel).focus();
    });
  }

  get language() {
    return this.languages[this.mode];
  }

  // Where code runs: "server", or "page" where that can be.
  get place() {
    return this.mode === "run" && languageOf(this.language).inPage ? this.chosenPlace : "server";
  }

  get isBusy() {
    return !this.buttons.stop.hidden;
  }

  get #examples() {
    if (this.mode === "session") return SESSION_EXAMPLES;
    return this.place === "page" ? PAGE_EXAMPLES : RUN_EXAMPLES;
  }

  get #codeKey() {
    return `${this.mode}:${this.language}`;
  }

  setMode(mode) {
    this.mode = mode;
    this.#lendLimits(null);
    const known = LANGUAGES.filter((language) => mode === "run" || language.sessions);
    this.languageSelect.replaceChildren(...known.map((language) => h("option", { value: language.id }, language.name)));
    this.setLanguage(this.language, true);
  }

  setPlace(place) {
    this.chosenPlace = place;
    this.#lendLimits(null);
    this.setLanguage(this.language, true);
  }

  setLanguage(language, quietly = false) {
    this.languages[this.mode] = languageOf(language).id;
    this.languageSelect.value = this.language;
    this.editor.setLanguage(this.language);
    find("#place-label").hidden = this.mode !== "run" || !languageOf(this.language).inPage;
    this.placeSelect.value = this.place;
    this.limits.setPlace(this.place, this.language, this.mode);
    const examples = this.#examples.filter((example) => example.language === this.language);
    this.exampleSelect.replaceChildren(h("option", { value: "" }, "Examples"), ...examples.map((example) => h("option", { value: example.name }, example.name)));
    this.editor.value = this.code[this.#codeKey] ?? examples[0]?.code ?? "";
    this.onPlace?.(this.place, this.language);
    if (!quietly) this.onLanguage?.(this.language);
  }

  setCode(text) {
    this.editor.value = text;
    this.#keep(text);
  }

  #keep(text) {
    this.code[this.#codeKey] = text;
    clearTimeout(this.keeping);
    this.keeping = setTimeout(() => {
      try {
        localStorage.setItem(KEPT, JSON.stringify(this.code));
      } catch { /* too much to keep */ }
    }, 400);
  }

  #useExample() {
    const chosen = this.#examples.find((example) => example.language === this.language && example.name === this.exampleSelect.value);
    this.exampleSelect.value = "";
    if (chosen) this.useExample(chosen);
  }

  useExample(chosen) {
    if (PAGE_EXAMPLES.includes(chosen) !== (this.place === "page")) this.setPlace(PAGE_EXAMPLES.includes(chosen) ? "page" : "server");
    if (chosen.language !== this.language) this.setLanguage(chosen.language);
    this.setCode(chosen.code);
    this.#lendLimits(chosen.limits);
    this.editor.focus();
  }

  // Limits of an example are for that example only.
  #lendLimits(limits) {
    if (this.lent) this.limits.set(this.lent);
    this.lent = limits ? Object.fromEntries(Object.keys(limits).map((name) => [name, this.limits.values[name]])) : null;
    if (limits) this.limits.set(limits);
  }

  press() {
    if (this.isBusy) return;
    if (!this.editor.value.trim()) {
      notify("There is no code to run");
      return;
    }
    find("#limits").open = false;
    this.onRun(this.editor.value);
  }

  // ---- while a run is under way ----

  begin(ceilings) {
    this.ceilings = ceilings;
    this.buttons.run.hidden = true;
    this.buttons.stop.hidden = false;
    this.buttons.copy.hidden = true;
    this.output.clear();
    this.#showClock("Running");
    this.state.className = "run-state busy";
    if (matchMedia("(max-width: 860px)").matches) find(".output-pane").scrollIntoView({ behavior: "smooth", block: "start" });
  }

  #showClock(doing) {
    const started = performance.now();
    const tick = () => {
      this.state.textContent = `${doing} · ${((performance.now() - started) / 1000).toFixed(1)} s`;
    };
    clearInterval(this.timer);
    this.timer = setInterval(tick, 100);
    tick();
  }

  end(record) {
    clearInterval(this.timer);
    this.buttons.run.hidden = false;
    this.buttons.stop.hidden = true;
    this.showState(record);
  }

  showState(record) {
    this.shown = record;
    this.editor.mark(record?.result?.vet?.findings ?? []);
    this.buttons.copy.hidden = !record?.items.length;
    const took = record?.result?.usage?.wall_ms ?? record?.result?.duration_ms;
    this.state.className = "run-state";
    this.state.textContent = took !== undefined && took !== null ? format.milliseconds(took) : "";
  }

  // What `execute` tells, onto the page.
  take(kind, payload) {
    if (kind === "stdout" || kind === "stderr") this.output.text(payload, kind);
    else if (kind === "result") this.output.result(payload);
    else if (kind === "loading") this.#showClock(`Loading ${payload.name}`);
    else if (kind === "started" && this.place === "page") this.#showClock("Running");
    else if (kind === "progress" && payload.wall_ms !== undefined) this.output.showUsage(payload, this.ceilings);
    else if (kind === "progress") this.output.showProgress(payload);
  }

  async #copy() {
    try {
      await navigator.clipboard.writeText(this.shown?.text ?? "");
      notify("Copied");
    } catch {
      notify("The browser does not allow copying here", "bad");
    }
  }
}
