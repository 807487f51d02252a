// The page Session: an interpreter that stays, and the tree of everything that was run in it.
import * as api from "./api.js";
import { CompareView } from "./compare.js";
import { button, find, notify } from "./dom.js";
import { languageOf } from "./examples.js";
import * as format from "./format.js";
import { Session } from "./session_model.js";
import { TreeView } from "./tree.js";

const LIFE = { ttl: "4h", idle: "1h", runs_max: 1000 }; // somebody sits in front of it
const GRACE_MS = 3000; // an interrupt that does not help within this ends the request

export class SessionPage {
  constructor(workbench, files) {
    this.workbench = workbench;
    this.files = files;
    this.session = new Session();
    this.isShown = false;
    this.tree = new TreeView(find("#tree"), this.session, { onSelect: (step, branch) => this.#choose(step, branch), onKey: (event) => this.#key(event) });
    this.compare = new CompareView(find("#compare"), this.session, () => this.#closeCompare());
    this.session.addEventListener("change", () => this.#draw());
    find("#session-new").addEventListener("click", () => this.#renew());
    find("#compare-open").addEventListener("click", () => this.#compareEnds());
    this.#makeActions();
    this.session.restore().then(() => this.isShown && this.session.isStarted && this.show(), () => this.session.clear());
  }

  #makeActions() {
    const act = (action) => () => this.#try(action);
    this.actions = {
      fork: button("Fork here", { kind: "small", symbol: "fork", onclick: act(() => this.#fork()) }),
      back: button("Roll back", { kind: "small", symbol: "back", onclick: act(() => this.#rollBack()) }),
      compare: button("Compare", { kind: "small", symbol: "compare", onclick: () => this.#startCompare() }),
    };
    find("#step-actions").append(...Object.values(this.actions));
  }

  show() {
    this.isShown = true;
    if (this.workbench.isBusy) return; // it went on meanwhile
    this.workbench.setMode("session");
    if (this.session.isStarted) this.workbench.setLanguage(this.session.language, true);
    this.#draw();
    this.#showStep();
  }

  hide() {
    this.isShown = false;
    this.#closeCompare();
  }

  changeLanguage(language) {
    if (!this.session.isStarted || language === this.session.language) return;
    notify(`The next run begins a new session in ${languageOf(language).name}`);
  }

  get #selected() {
    return this.session.step(this.session.selected);
  }

  #choose(step, branch) {
    if (this.comparing && step !== this.comparing) {
      this.#openCompare(this.comparing, step);
      return;
    }
    if (this.workbench.isBusy) return;
    this.session.select(step, branch);
    this.#showStep();
  }

  #showStep() {
    const step = this.#selected;
    if (!this.isShown || this.workbench.isBusy) return;
    const { output } = this.workbench;
    if (!step) output.empty("No session yet", "The first run starts one. Variables, imports and files stay from step to step.");
    else if (step.state === "start") output.empty("The start", "A box with nothing in it but the interpreter and your files.");
    else {
      output.show(step.record, this.session.ceilings);
      this.workbench.setCode(step.code);
    }
    this.workbench.showState(step?.record ?? null);
  }

  #draw() {
    if (!this.isShown) return;
    const { session } = this;
    const step = this.#selected;
    this.tree.draw(this.comparing?.id ?? null);
    const isWaiting = session.current !== null && session.current !== step?.branch;
    find("#output-title").textContent = !step || step.state === "start" ? "Output" : `Step ${step.id}`;
    find("#step-actions").hidden = !step;
    this.actions.back.disabled = !step || (session.current !== null && !isWaiting) || this.workbench.isBusy;
    this.actions.fork.disabled = !step || step.state === "running" || this.workbench.isBusy;
    this.actions.compare.disabled = session.steps.length < 3 || step?.state === "start";
    this.actions.compare.classList.toggle("pressed", Boolean(this.comparing));
    find("#compare-open").hidden = this.#ends().length < 2;
    find("#session-new").hidden = !session.isStarted;
    find("#run-text").textContent = this.#runText(step);
    find("#session-note").textContent = this.#note();
  }

  #runText(step) {
    const { session } = this;
    if (!step || this.workbench.language !== session.language) return "Start and run";
    if (session.current === null) return "Fork and run";
    return session.branches.filter((branch) => branch.live).length > 1 ? `Run on ${session.branch(session.current).name}` : "Run";
  }

  #note() {
    const { session } = this;
    if (this.comparing) return "Choose the step to compare with. Escape leaves it.";
    if (!session.isStarted) return "Every run becomes a step here. You can fork at any step, and return to it.";
    const live = new Set(session.branches.filter((branch) => branch.live).map((branch) => branch.sandbox)).size;
    if (!live) return "The boxes of this session are gone. A run after a step does the steps before it again.";
    return `${format.plural(live, "live box", "live boxes")}${languageOf(session.language).forks ? "" : " · forks of this language run the steps again"}`;
  }

  #key(event) {
    const acts = { f: () => this.#fork(), b: () => !this.actions.back.disabled && this.#rollBack() };
    if (event.key === "Escape" && this.comparing) {
      this.comparing = null;
      this.#draw();
    } else if (event.key === "c" && !this.actions.compare.disabled) this.#startCompare();
    else if (event.key in acts && this.#selected && !this.workbench.isBusy) this.#try(acts[event.key]);
  }

  async #try(action) {
    try {
      await action();
    } catch (error) {
      notify(api.wordsOf(error), "bad");
    }
  }

  async #fork() {
    const step = this.#selected;
    const branch = await this.session.fork(step);
    this.#showStep();
    const where = step.id === 0 ? "the start" : `step ${step.id}`;
    notify(branch.replayed ? `${branch.name}: a new box has run everything up to ${where} again` : `${branch.name} begins after ${where}`);
    this.workbench.editor.focus();
  }

  async #rollBack() {
    const step = this.#selected;
    await this.session.rollBack(step);
    this.#showStep();
    notify(step.id === 0 ? "Back at the start" : `Back after step ${step.id}`);
    this.workbench.editor.focus();
  }

  async #renew() {
    if (this.workbench.isBusy) return;
    await this.session.end();
    this.#closeCompare();
    this.#showStep();
    this.workbench.editor.focus();
  }

  // ---- comparing ----

  #ends() {
    const { session } = this;
    const parents = new Set(session.steps.map((step) => step.parent));
    return session.steps.filter((step) => !parents.has(step.id) && step.state !== "start");
  }

  #compareEnds() {
    const ends = this.#ends();
    this.#openCompare(ends.at(-2), ends.at(-1));
  }

  #startCompare() {
    this.comparing = this.comparing ? null : this.#selected;
    this.#draw();
  }

  #openCompare(one, other) {
    this.comparing = null;
    find("#compare").hidden = false;
    find(".bench").hidden = true;
    this.compare.open(one, other);
    this.#draw();
  }

  #closeCompare() {
    this.comparing = null;
    find("#compare").hidden = true;
    find(".bench").hidden = false;
    this.#draw();
  }

  // ---- running ----

  async run(code) {
    const { workbench, session } = this;
    this.stopper = new AbortController();
    this.#closeCompare();
    workbench.begin(session.isStarted ? session.ceilings : workbench.limits.ceilings());
    let record = null;
    try {
      await this.#prepare();
      ({ record } = await session.run(code, { signal: this.stopper.signal, on: (kind, payload) => workbench.take(kind, payload) }));
      clearTimeout(this.forcing);
      workbench.output.end(record, session.ceilings);
    } catch (error) {
      workbench.output.empty("The session could not go on", api.wordsOf(error));
    }
    workbench.end(record);
    this.#draw();
  }

  async #prepare() {
    const { workbench, session } = this;
    if (session.isStarted && workbench.language !== session.language) await session.end();
    if (!session.isStarted) {
      const options = { language: workbench.language, ...LIFE, ...workbench.limits.request(), ...this.files.request() };
      await this.#start(options, workbench.limits.ceilings());
    } else if (session.current === null) {
      await session.fork(this.#selected);
    }
  }

  async #start({ files, ...options }, ceilings) {
    try {
      await this.session.start(files ? { ...options, files } : options, ceilings);
    } catch (error) {
      if (!files || error.field !== "files") throw error;
      notify("This server gives sessions no files: it runs without them", "bad");
      await this.session.start(options, ceilings);
    }
  }

  stop() {
    this.session.interrupt();
    this.forcing = setTimeout(() => this.stopper.abort(), GRACE_MS);
  }
}
