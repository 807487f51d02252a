// The page Run: each run has a box of its own, which is gone when the run has ended.
import { find } from "./dom.js";
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
    else workbench.output.empty("Nothing has run yet", "Output appears here as it comes.");
    workbench.showState(this.record);
  }

  async run(code) {
    const { workbench } = this;
    const record = new Record();
    this.stopper = new AbortController();
    this.ceilings = workbench.limits.ceilings();
    releaseAddresses();
    workbench.begin();
    const body = { language: workbench.language, code, collect: "inline", ...workbench.limits.request(), ...this.files.request() };
    await execute("/v1/run", body, { record, signal: this.stopper.signal, on: (kind, payload) => workbench.take(kind, payload) });
    this.record = record;
    workbench.end(record);
    workbench.output.end(record, this.ceilings);
  }

  stop() {
    this.stopper?.abort();
  }
}
