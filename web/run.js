// The page Run: each run has a box of its own, which is gone when the run has ended.
import { button, find, h, notify } from "./dom.js";
import { executeInPage, forget, prepare } from "./cell.js";
import { PAGE_EXAMPLES, RUN_EXAMPLES } from "./examples.js";
import { execute } from "./execute.js";
import { Record } from "./output.js";
import { releaseAddresses } from "./results.js";

const WANTED = ["A plot, as a file", "Output as it comes", "Too much memory", "No way out"]; // to begin with

export class RunPage {
  constructor(workbench, files) {
    this.workbench = workbench;
    this.files = files;
    this.record = null;
  }

  show() {
    const { workbench } = this;
    if (workbench.isBusy) return; // it went on meanwhile
    workbench.setMode("run");
    find("#output-title").textContent = "Output";
    find("#step-actions").hidden = true;
    if (this.record) workbench.output.show(this.record, this.ceilings);
    else this.#showNothing();
    workbench.showState(this.record);
  }

  // Where the next run will be. An interpreter in the page takes a while to load: it begins at once.
  place(place, language) {
    find("#run-text").textContent = place === "page" ? "Run in page" : "Run";
    if (place === "page") prepare(language, this.workbench.limits.ceilings());
    else forget();
    if (!this.record && !this.workbench.isBusy) this.#showNothing();
  }

  hide() {
    forget();
  }

  #showNothing() {
    const { place, language, output } = this.workbench;
    const here = place === "page" ? PAGE_EXAMPLES.filter((example) => example.language === language)
      : RUN_EXAMPLES.filter((example) => WANTED.includes(example.name));
    const words = place === "page" ? "It will run in your browser, and nothing is sent to the server." : "Output appears here as it comes.";
    const suggestion = (example) => button(example.name, { kind: "small", onclick: () => {
      this.workbench.useExample(example);
      this.workbench.press();
    } });
    output.empty("Nothing has run yet", words, h("div", { class: "suggestions" }, here.map(suggestion)));
  }

  async run(code) {
    const { workbench } = this;
    const record = new Record();
    this.stopper = new AbortController();
    this.ceilings = workbench.limits.ceilings();
    releaseAddresses();
    workbench.begin(this.ceilings);
    await (workbench.place === "page" ? this.#runInPage(code, record) : this.#runOnServer(code, record));
    this.record = record;
    workbench.end(record);
    workbench.output.end(record, this.ceilings);
    this.place(workbench.place, workbench.language);
  }

  async #runOnServer(code, record) {
    const { workbench } = this;
    const chosen = workbench.limits.request();
    // What a notebook would show, where there is a runner that can.
    const results = workbench.language === "python" && chosen.isolation !== "wasm" && chosen.vet !== "restricted" ? { results: true } : {};
    const body = { language: workbench.language, code, collect: "url", ...results, ...chosen, ...this.files.request() };
    await execute("/v1/run", body, { record, signal: this.stopper.signal, on: (kind, payload) => workbench.take(kind, payload) });
  }

  #runInPage(code, record) {
    const { workbench } = this;
    if (this.files.request().files) notify("Runs in this page are given no files");
    return executeInPage(workbench.language, code, { record, signal: this.stopper.signal, ceilings: this.ceilings,
      on: (kind, payload) => workbench.take(kind, payload) });
  }

  stop() {
    this.stopper?.abort();
  }
}
