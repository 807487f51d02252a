// The page Run: each run has a box of its own, which is gone when the run has ended.
import { button, find, h } from "./dom.js";
import { RUN_EXAMPLES } from "./examples.js";
import { execute } from "./execute.js";
import { Record } from "./output.js";
import { releaseAddresses } from "./results.js";

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
    find("#run-text").textContent = "Run";
    find("#output-title").textContent = "Output";
    find("#step-actions").hidden = true;
    if (this.record) workbench.output.show(this.record, this.ceilings);
    else workbench.output.empty("Nothing has run yet", "Output appears here as it comes.", this.#suggestions());
    workbench.showState(this.record);
  }

  #suggestions() {
    const wanted = ["A plot, as a file", "Output as it comes", "Too much memory", "No way out"];
    return h("div", { class: "suggestions" }, RUN_EXAMPLES.filter((example) => wanted.includes(example.name))
      .map((example) => button(example.name, { kind: "small", onclick: () => {
        this.workbench.useExample(example);
        this.workbench.press();
      } })));
  }

  async run(code) {
    const { workbench } = this;
    const record = new Record();
    this.stopper = new AbortController();
    this.ceilings = workbench.limits.ceilings();
    releaseAddresses();
    workbench.begin(this.ceilings);
    const body = { language: workbench.language, code, collect: "url", ...workbench.limits.request(), ...this.files.request() };
    await execute("/v1/run", body, { record, signal: this.stopper.signal, on: (kind, payload) => workbench.take(kind, payload) });
    this.record = record;
    workbench.end(record);
    workbench.output.end(record, this.ceilings);
  }

  stop() {
    this.stopper?.abort();
  }
}
