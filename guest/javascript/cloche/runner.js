"use strict";
// The runner of a JavaScript context: node inside a box.
//
//     node --no-force-async-hooks-checks runner.js FD
//
// Theory of operation. The host sends one run after the other over the socket FD; the runner evaluates each in the same
// global scope, and sends what it prints, shows and reports as it happens, then how it ended. A run has ended when its
// last expression has a value; timers and promises that are left go on, between runs too. SIGINT ends a run as
// interrupted; between runs it does nothing. When the host closes the socket the runner ends. Everything that it says
// may be the words of the code that it runs: the host believes none of it but as that.
//
// The option: code that is terminated in a timer leaves node's count of asynchronous calls as it was, which node would
// otherwise take for its own mistake, and abort.
const imports = require("./imports");
const rich = require("./rich");
const streams = require("./streams");
const { Evaluator, completeness } = require("./execute");
const { Interrupts } = require("./interrupt");
const { Channel, BODY_MAX } = require("./wire");

const PROTOCOL = 1;
const reallyExit = process.reallyExit.bind(process);

function nextTurn() {
  return new Promise((resolve) => setImmediate(resolve));
}

class Runner {
  constructor(fd) {
    this.channel = new Channel(fd);
    this.evaluator = new Evaluator();
    this.input = new streams.Input();
    this.interrupts = new Interrupts(() => this.interrupt());
    this.runId = null;
    this.count = 0;
    this.endRun = null; // while one is under way: ends it, whatever its code is doing
    this.orders = [];
    this.isBusy = false;
  }

  send(type, fields, body) {
    this.interrupts.whole(() => this.channel.send({ type, run: this.runId, ...fields }, body));
  }

  show(kind, bundle) {
    let left = BODY_MAX;
    const fitting = [...bundle].filter(([, content]) => (left -= content.length) >= 0);
    const media = fitting.map(([name, content]) => [name, content.length]);
    this.send("result", { kind, media }, Buffer.concat(fitting.map(([, content]) => content)));
  }

  // The surroundings that code expects.
  prepare() {
    streams.replaceOutputs((name, data) => this.send(name, {}, data));
    this.input.give(undefined);
    rich.connect((kind, bundle) => this.show(kind, bundle));
    const progress = rich.makeProgress((fraction, text) => this.send("progress", { fraction, text }));
    this.offered = { display: rich.display, progress, ...rich.kinds };
    const globals = { require: this.makeRequire(), module: { exports: {} }, exports: {}, cloche: this.offered,
      display: rich.display, [imports.LOADER]: imports.load };
    for (const [name, value] of Object.entries(globals))
      Object.defineProperty(globalThis, name, { value, writable: true, configurable: true, enumerable: false });
    process.exit = (code) => this.exit(code);
    process.on("uncaughtException", (error) => this.tell(error));
    process.on("unhandledRejection", (error) => this.tell(error));
  }

  // Looks names up from where the code stands now.
  makeRequire() {
    const here = () => imports.requireFrom(process.cwd());
    const require = (name) => (name === "cloche" ? this.offered : here()(name));
    require.resolve = (...given) => here().resolve(...given);
    const { cache, extensions } = here();
    return Object.assign(require, { cache, extensions, main: undefined });
  }

  // What went wrong where no run waits for it.
  tell(error) {
    process.stderr.write(`Uncaught ${this.evaluator.describe(error).traceback}`.replace(/^Uncaught Uncaught/, "Uncaught"));
  }

  interrupt() {
    const error = { name: "Interrupted", value: "the run was interrupted", traceback: "Interrupted\n" };
    this.endRun?.({ status: "interrupted", error });
  }

  exit(code = process.exitCode) {
    const exit_code = code === undefined || code === null ? 0 : Number(code) & 0xff;
    const end = this.endRun;
    this.interrupts.claim(); // one stop is enough
    setImmediate(() => end?.({ status: "exit", exit_code })); // what waits is forgotten when code is stopped
    this.evaluator.stop();
  }

  serve() {
    this.send("ready", { protocol: PROTOCOL, language: "javascript", version: process.versions.node });
    const take = (header, body) => {
      this.orders.push([header, body]);
      this.obeyNext();
    };
    this.channel.listen(take, () => {
      this.evaluator.close(); // or node waits for a debugger
      reallyExit(0);
    });
  }

  // One at a time, and each in a turn of its own: when code is stopped, V8 forgets all that was to be done in the same
  // turn, and nothing of ours may be among it.
  obeyNext() {
    if (this.isBusy || !this.orders.length) return;
    this.isBusy = true;
    this.interrupts.whenReady(() => setImmediate(() => {
      this.obey(...this.orders.shift()).then(() => {
        this.isBusy = false;
        this.obeyNext();
      });
    }));
  }

  async obey(header, body) {
    if (header.type === "run") await this.run(header, body.toString());
    else if (header.type === "complete") this.send("completeness", { text: completeness(body.toString()) });
    else this.send("refused", { text: `there is no message '${header.type}'` });
  }

  async run(header, source) {
    const started = process.hrtime.bigint();
    this.runId = header.run ?? null;
    const name = header.name || `<run ${++this.count}>`;
    const ended = new Promise((resolve) => {
      this.endRun = (end) => {
        this.interrupts.claim();
        resolve(end);
      };
    });
    this.interrupts.beginRun();
    this.send("started", {}); // from now on a signal is for this run
    process.exitCode = undefined;
    process.argv = [process.argv[0], "", ...(header.arguments ?? [])];
    this.input.give(header.stdin);
    // Not called from here: a stop may hit all that the code returns to, and this must go on.
    Promise.resolve().then(() => this.execute(source, name)).then(this.endRun);
    const end = await ended;
    await this.interrupts.endRun();
    await nextTurn(); // for a rejection that nobody handles to be told as this run's
    this.endRun = null;
    this.send("end", { ...end, duration_us: Number((process.hrtime.bigint() - started) / 1000n) });
    this.runId = null;
  }

  async execute(source, name) {
    try {
      const { value, isError, error, place, isStopped } = await this.evaluator.evaluate(source, name);
      if (isStopped) return await new Promise(() => {}); // by exit() or a signal: who stopped it ends the run
      if (isError) return { status: "error", error: this.evaluator.describe(error, place) };
      if (value !== undefined) {
        globalThis._ = value;
        this.show("value", rich.bundle(value));
      }
      return { status: "ok" };
    } catch (error) {
      return { status: "error", error: this.evaluator.describe(error) };
    }
  }
}

const runner = new Runner(Number(process.argv[2]));
runner.prepare();
runner.serve();
