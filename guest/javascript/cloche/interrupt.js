"use strict";
// SIGINT, also for code that never gives the event loop a turn.
//
// Node tells of signals in the event loop, which a busy loop keeps from running. So a second thread listens too: if the
// first has not answered within a moment, it is busy, and what it executes is terminated through the inspector. That
// reaches any JavaScript, be it of the run, behind an await or in a timer.
//
// It would reach the runner too, in the middle of a frame. So the second thread first says that it wants a stop, and
// terminates only what does not write: one who begins to write then stops by itself. And a run does not end before
// the second thread is done.
const { Worker } = require("worker_threads");

const PATIENCE_MS = 100;

// Numbers that both threads share, by index.
const PLACES = {
  ANSWERS: 0, // how many signals the first has heard
  IS_RUNNING: 1, // set by the first: between runs nothing is terminated
  IS_WRITING: 2, // set by the first: a frame
  WANTS_STOP: 3, // set by the second
  IS_CHECKING: 4, // set by the second: it has heard a signal, and is not done with it
};
const { ANSWERS, IS_RUNNING, IS_WRITING, WANTS_STOP, IS_CHECKING } = PLACES;

// The second thread. It is given as text, and knows no names of this file.
function watch() {
  const { parentPort, workerData } = require("worker_threads");
  const { Session } = require("inspector");
  const { shared, patience_ms } = workerData;
  const { ANSWERS, IS_RUNNING, IS_WRITING, WANTS_STOP, IS_CHECKING } = workerData.places;
  const session = new Session();
  session.connectToMainThread();
  const done = () => Atomics.store(shared, IS_CHECKING, 0);
  const check = (answers) => {
    if (Atomics.load(shared, ANSWERS) !== answers || !Atomics.load(shared, IS_RUNNING)) return done();
    Atomics.store(shared, WANTS_STOP, 1);
    if (Atomics.load(shared, IS_WRITING)) return setTimeout(check, 5, answers);
    session.post("Runtime.terminateExecution", done); // calls back when it has happened
  };
  // process.on() refuses signals in a thread; what it is made of does not.
  const { Signal } = process.binding("signal_wrap");
  const signal = new Signal();
  signal.onsignal = () => {
    if (!Atomics.load(shared, IS_RUNNING) || Atomics.exchange(shared, IS_CHECKING, 1)) return; // several in a row are one
    setTimeout(check, patience_ms, Atomics.load(shared, ANSWERS));
  };
  signal.start(2);
  parentPort.postMessage("ready");
  setInterval(() => {}, 1 << 30); // stay
}

class Interrupts {
  // Calls `interrupt` for every SIGINT, as soon as there is a turn for it. `stop` ends the code that calls it.
  constructor(interrupt, stop) {
    this.stop = stop;
    this.shared = new Int32Array(new SharedArrayBuffer(4 * Object.keys(PLACES).length));
    process.on("SIGINT", () => {
      Atomics.add(this.shared, ANSWERS, 1);
      Atomics.store(this.shared, IS_WRITING, 0); // of one who was stopped
      interrupt();
    });
    const workerData = { shared: this.shared, places: PLACES, patience_ms: PATIENCE_MS };
    const options = { eval: true, workerData, execArgv: ["--no-deprecation"], stdout: true, stderr: true };
    const worker = new Worker(`(${watch})()`, options);
    this.waiting = [];
    worker.on("message", () => this.begin());
    worker.on("error", () => this.begin()); // a node without these parts: then only what waits can be interrupted
    worker.unref();
  }

  begin() {
    const waiting = this.waiting ?? [];
    this.waiting = null;
    for (const call of waiting) call();
  }

  // Calls back when a run can be interrupted.
  whenReady(call) {
    if (this.waiting) this.waiting.push(call);
    else call();
  }

  beginRun() {
    Atomics.store(this.shared, WANTS_STOP, 0);
    Atomics.store(this.shared, IS_RUNNING, 1);
  }

  // A timer that comes again: the stop may still hit one of its calls.
  async endRun() {
    Atomics.store(this.shared, IS_RUNNING, 0);
    if (!Atomics.load(this.shared, IS_CHECKING)) return;
    await new Promise((resolve) => {
      const timer = setInterval(() => {
        if (Atomics.load(this.shared, IS_CHECKING)) return;
        clearInterval(timer);
        resolve();
      }, 5);
    });
  }

  // Writes what must not be cut.
  whole(write) {
    Atomics.store(this.shared, IS_WRITING, 1);
    const isUnwanted = Atomics.load(this.shared, WANTS_STOP) && Atomics.load(this.shared, IS_RUNNING);
    if (isUnwanted) this.stop(); // still as one who writes: one stop is enough
    write();
    Atomics.store(this.shared, IS_WRITING, 0);
  }
}

module.exports = { Interrupts };
