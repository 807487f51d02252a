"use strict";
// SIGINT, also for code that never gives the event loop a turn.
//
// Node tells of signals in the event loop, which a busy loop keeps from running. So a second thread listens too: if the
// first has not answered within a moment, it is busy, and what it executes is terminated through the inspector. That
// reaches any JavaScript, be it of the run, behind an await or in a timer.
const { Worker } = require("worker_threads");

const PATIENCE_MS = 100;

// Shared by both threads, by index.
const ANSWERS = 0; // how many signals the first has heard
const IS_RUNNING = 1; // between runs nothing is terminated: it would be the runner itself

// The second thread; it shares no names with this file.
function watch() {
  const { parentPort, workerData } = require("worker_threads");
  const { Session } = require("inspector");
  const { shared, patience_ms } = workerData;
  const session = new Session();
  session.connectToMainThread();
  // process.on() refuses signals in a thread; what it is made of does not.
  const { Signal } = process.binding("signal_wrap");
  const signal = new Signal();
  let isWaiting = false;
  signal.onsignal = () => {
    if (isWaiting || !Atomics.load(shared, 1)) return; // several in a row are one: the next would hit our own code
    isWaiting = true;
    const before = Atomics.load(shared, 0);
    setTimeout(() => {
      isWaiting = false;
      if (Atomics.load(shared, 0) === before && Atomics.load(shared, 1)) session.post("Runtime.terminateExecution");
    }, patience_ms);
  };
  signal.start(2);
  parentPort.postMessage("ready");
  setInterval(() => {}, 1 << 30); // stay
}

class Interrupts {
  // Calls `interrupt` for every SIGINT, as soon as there is a turn for it.
  constructor(interrupt) {
    this.shared = new Int32Array(new SharedArrayBuffer(8));
    process.on("SIGINT", () => {
      Atomics.add(this.shared, ANSWERS, 1);
      interrupt();
    });
    const workerData = { shared: this.shared, patience_ms: PATIENCE_MS };
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

  set isRunning(isRunning) {
    Atomics.store(this.shared, IS_RUNNING, isRunning ? 1 : 0);
  }
}

module.exports = { Interrupts };
