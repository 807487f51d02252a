// A session: boxes on the server, and the tree of what was run in them. Each run is a step; a branch is a line of steps in
// one box. A fork gives a branch a box of its own; a roll back leaves the old line behind and goes on from an earlier step.
import * as api from "./api.js";
import { execute } from "./execute.js";
import { Record } from "./output.js";

const KEPT = "cloche-session";
const CANNOT = [400, 404, 409, 410, 422, 501]; // answers to what a server, a language or a box that is gone cannot do
const OUTPUT = "/data/output";
const KEPT_MOST = 2 << 20; // characters that are kept over a reload

export class Session extends EventTarget {
  constructor() {
    super();
    this.clear();
  }

  clear() {
    this.steps = []; // {id, parent, branch, code, state: start | running | ok | error | lost, record, checkpoint, left}
    this.branches = []; // {id, name, sandbox, context, head, live}
    this.selected = null; // the step that is shown
    this.current = null; // the branch that the next run goes on; null: the step is not the end of one
    this.options = null; // {language, limits for the bars}
    this.ceilings = {};
  }

  get isStarted() {
    return this.steps.length > 0;
  }

  get language() {
    return this.options?.language ?? "python";
  }

  get running() {
    return this.steps.find((step) => step.state === "running") ?? null;
  }

  step(id) {
    return this.steps[id] ?? null;
  }

  branch(id) {
    return this.branches[id];
  }

  branchOf(step) {
    return this.branches[step.branch];
  }

  isHead(step) {
    const branch = this.branchOf(step);
    return branch.live && branch.head === step.id;
  }

  hasSteps(branch) {
    return this.steps.some((step) => step.branch === branch.id);
  }

  // From the start to the step, both included.
  pathTo(step) {
    const path = [];
    for (let at = step; at; at = at.parent === null ? null : this.step(at.parent)) path.unshift(at);
    return path;
  }

  lastShared(one, other) {
    const ids = new Set(this.pathTo(one).map((step) => step.id));
    return this.pathTo(other).findLast((step) => ids.has(step.id));
  }

  #changed() {
    this.#keep();
    this.dispatchEvent(new Event("change"));
  }

  // A step, or the end of a branch that has no step of its own yet.
  select(step, branch = null) {
    this.selected = step.id;
    this.current = branch ? branch.id : this.isHead(step) ? step.branch : null;
    this.#changed();
  }

  #addStep(fields) {
    const step = { id: this.steps.length, checkpoint: null, left: false, at: Date.now(), ...fields };
    this.steps.push(step);
    this.branches[step.branch].head = step.id;
    this.selected = step.id;
    this.current = step.branch;
    return step;
  }

  #addBranch(name, sandbox) {
    const branch = { id: this.branches.length, name, sandbox: sandbox.id, context: sandbox.contexts?.[0]?.id ?? sandbox.contexts?.[0], head: null, live: true };
    this.branches.push(branch);
    return branch;
  }

  async start(options, ceilings) {
    const sandbox = await api.post("/v1/sandboxes", options);
    this.clear();
    this.options = options;
    this.ceilings = ceilings;
    const branch = this.#addBranch("main", sandbox);
    const step = this.#addStep({ parent: null, branch: branch.id, code: "", state: "start", record: new Record() });
    await this.#remember(step, branch);
    this.#changed();
  }

  // Keeps the state after a step, so that it can be forked or returned to later. Not every language can.
  async #remember(step, branch) {
    if (this.language !== "python" || !branch.live) return;
    const path = `/v1/sandboxes/${branch.sandbox}/checkpoints`;
    for (let tries = 2; tries > 0; tries -= 1) {
      try {
        step.checkpoint = (await api.post(path, { name: `step ${step.id}` })).id;
        return;
      } catch (error) {
        if (error.status !== 409 || !(await this.#forgetOldest(branch))) return; // then its steps are run again
      }
    }
  }

  // There is a number of checkpoints that a box may have. The start is kept.
  async #forgetOldest(branch) {
    const oldest = this.steps.find((step) => step.id > 0 && step.checkpoint && this.branchOf(step).sandbox === branch.sandbox);
    if (!oldest) return false;
    const { checkpoint } = oldest;
    oldest.checkpoint = null;
    await api.remove(`/v1/sandboxes/${branch.sandbox}/checkpoints/${checkpoint}`).catch(() => {});
    return true;
  }

  async run(code, { on, signal } = {}) {
    const branch = this.branch(this.current);
    const parent = this.step(branch.head);
    const step = this.#addStep({ parent: parent.id, branch: branch.id, code, state: "running", record: new Record() });
    this.#changed();
    await execute(`/v1/sandboxes/${branch.sandbox}/run`, { code }, { record: step.record, on, signal });
    const { result, failure } = step.record;
    step.state = failure || result?.died || ["error", "exit"].includes(result?.status) || result?.timed_out ? "error" : "ok";
    if (result?.died || failure?.status === 404 || failure?.status === 410) this.#lose(branch.sandbox);
    else if (!failure) {
      await this.#findFiles(step, branch);
      await this.#remember(step, branch);
    }
    this.#changed();
    return step;
  }

  // What is new in the working directory since the last look at this branch.
  async #findFiles(step, branch) {
    try {
      const { entries } = await api.get(`/v1/sandboxes/${branch.sandbox}/files/list?path=${encodeURIComponent(OUTPUT)}`);
      const files = entries.filter((entry) => entry.type === "file");
      const marks = Object.fromEntries(files.map((file) => [file.path, `${file.size} ${file.modified_ns}`]));
      const fresh = files.filter((file) => branch.seen?.[file.path] !== marks[file.path]);
      branch.seen = marks;
      step.record.result.files = fresh.map((file) => ({ path: file.path.replace(`${OUTPUT}/`, ""), size: file.size,
        url: `/v1/sandboxes/${branch.sandbox}/files?path=${encodeURIComponent(file.path)}` }));
    } catch { /* a server without files of sandboxes: then none are shown */ }
  }

  // The box is gone; what was shown stays.
  #lose(sandbox) {
    for (const branch of this.branches) if (branch.sandbox === sandbox) branch.live = false;
    if (this.current !== null && !this.branch(this.current).live) this.current = null;
  }

  interrupt() {
    const step = this.running;
    if (!step) return;
    const branch = this.branchOf(step);
    api.post(`/v1/sandboxes/${branch.sandbox}/contexts/${branch.context}/interrupt`, {}).catch(() => {});
  }

  // A new branch whose box is as that of the step was after it.
  async fork(step) {
    const from = this.branchOf(step);
    const sandbox = await this.#boxAt(step, from);
    const branch = this.#addBranch(`fork ${this.branches.filter((other) => other.name.startsWith("fork")).length + 1}`, sandbox);
    branch.head = step.id;
    branch.origin = step.id;
    branch.replayed = sandbox.replayed;
    branch.seen = from.seen;
    this.select(step, branch);
    return branch;
  }

  async #boxAt(step, from) {
    try {
      if (this.isHead(step)) return (await api.post(`/v1/sandboxes/${from.sandbox}/fork`, { count: 1 })).sandboxes[0];
      if (step.checkpoint) return await this.#forkOfCheckpoint(step, from);
    } catch (error) {
      if (!CANNOT.includes(error.status)) throw error;
    }
    return this.#replay(step);
  }

  async #forkOfCheckpoint(step, from) {
    return (await api.post(`/v1/sandboxes/${from.sandbox}/fork`, { count: 1, checkpoint: step.checkpoint })).sandboxes[0];
  }

  // Where nothing can be forked, a new box runs the same steps again.
  async #replay(step) {
    const sandbox = await api.post("/v1/sandboxes", this.options);
    for (const { code } of this.pathTo(step).slice(1)) await api.post(`/v1/sandboxes/${sandbox.id}/run`, { code });
    return { ...sandbox, replayed: true };
  }

  // The next run goes on after the step on the branch: its later steps are left behind.
  async rollBack(step) {
    const from = this.branchOf(step);
    let sandbox = { id: from.sandbox, contexts: [from.context] };
    try {
      if (!step.checkpoint) throw new api.ApiError(409, null);
      const told = await api.post(`/v1/sandboxes/${from.sandbox}/checkpoints/${step.checkpoint}/rollback`, {});
      if (told?.contexts) sandbox = told;
    } catch (error) {
      if (!CANNOT.includes(error.status)) throw error;
      sandbox = await this.#replay(step);
      api.remove(`/v1/sandboxes/${from.sandbox}`).catch(() => {});
    }
    this.#leaveBehind(step, from);
    const branch = this.#addBranch(from.name, sandbox);
    branch.head = step.id;
    branch.origin = step.id;
    this.select(step, branch);
  }

  #leaveBehind(step, branch) {
    const kept = new Set(this.pathTo(step).map((other) => other.id));
    for (const other of this.branches) if (other.sandbox === branch.sandbox) other.live = false;
    for (const other of this.steps) {
      if (this.branchOf(other).sandbox === branch.sandbox && !kept.has(other.id)) other.left = true;
    }
  }

  async end() {
    const boxes = new Set(this.branches.map((branch) => branch.sandbox));
    this.clear();
    this.#changed();
    await Promise.allSettled([...boxes].reverse().map((id) => api.remove(`/v1/sandboxes/${id}`)));
  }

  #keep() {
    if (!this.isStarted) {
      sessionStorage.removeItem(KEPT);
      return;
    }
    const { steps, branches, selected, current, options, ceilings } = this;
    try {
      const text = JSON.stringify({ steps, branches, selected, current, options, ceilings });
      if (text.length < KEPT_MOST) sessionStorage.setItem(KEPT, text);
    } catch { /* the storage is full: a reload forgets the session, nothing worse */ }
  }

  // After a reload: the tree is here, the boxes are asked for.
  async restore() {
    const kept = JSON.parse(sessionStorage.getItem(KEPT) ?? "null");
    if (!kept) return;
    Object.assign(this, kept);
    for (const step of this.steps) {
      step.record = Record.from(step.record);
      if (step.state === "running") step.state = "error";
    }
    await Promise.all([...new Set(this.branches.filter((branch) => branch.live).map((branch) => branch.sandbox))].map(async (id) => {
      try {
        await api.get(`/v1/sandboxes/${id}`);
      } catch {
        this.#lose(id);
      }
    }));
    this.#changed();
  }
}
