"use strict";
// SIGINT, also for code that never gives the event loop a turn.
//
// Node tells of signals in the event loop, which a busy loop keeps from running. So a second thread listens too: if the
// first has not answered within a moment, it is busy, and what it executes is terminated through the inspector. That
// reaches any JavaScript, be it of the run, behind an await or in a timer.
//
// It would reach the runner too: in the middle of a frame, of its handler of the signal, or as it ends the run. So both
// threads agree in one place, by compare and exchange. What the first has claimed is never stopped; and once the second
// wants a stop, the first writes nothing more and waits for it. A run does not end before the second thread is done. If
// a stop hits the runner as it is about to claim, that turn is lost: the second then sends the signal again.
const { Worker } = require("worker_threads");

const PATIENCE_MS = 100;

// Numbers that both threads share, by index.
const PLACES = {
  ANSWERS: 0, // how many signals the first has dealt with
  IS_RUNNING: 1, // set by the first: between runs nothing is terminated
  IS_WRITING: 2, // set by the first: a frame
  STOP: 3, // one of STOPS, changed by both
  IS_CHECKING: 4, // set by the second: it has heard a signal, and is not done with it
};
const STOPS = {
  NONE: 0,
  WANTED: 1, // by the second: as soon as the first does not write
  ON_ITS_WAY: 2,
  CLAIMED: 3, // by the first: the run ends, there is nothing to stop any more
};

// The second thread. It is given as text, and knows no names of this file.
function watch() {
  const { parentPort, workerData } = require("worker_threads");
  const { Session } = require("inspector");
  const { shared, patience_ms } = workerData;
  const { ANSWERS, IS_RUNNING, IS_WRITING, STOP, IS_CHECKING } = workerData.places;
  const { NONE, WANTED, ON_ITS_WAY } = workerData.stops;
  const session = new Session();
  session.connectToMainThread();
  const isDealtWith = (answers) => Atomics.load(shared, ANSWERS) !== answers || !Atomics.load(shared, IS_RUNNING);
  const again = (answers) => isDealtWith(answers) || process.kill(process.pid, "SIGINT");
  const done = () => Atomics.store(shared, IS_CHECKING, 0);
  const check = (answers) => {
    if (isDealtWith(answers)) return done();
    Atomics.compareExchange(shared, STOP, NONE, WANTED);
    if (Atomics.load(shared, IS_WRITING) || Atomics.compareExchange(shared, STOP, WANTED, ON_ITS_WAY) !== WANTED)
      return setTimeout(check, 5, answers);
    session.post("Runtime.terminateExecution", () => { // when it has happened
      Atomics.store(shared, STOP, NONE);
      done();
      setTimeout(again, patience_ms, answers);
    });
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

const { ANSWERS, IS_RUNNING, IS_WRITING, STOP, IS_CHECKING } = PLACES;
const { NONE, WANTED, ON_ITS_WAY, CLAIMED } = STOPS;

class Interrupts {
  // Calls `interrupt` for every SIGINT, as soon as there is a turn for it.
  constructor(interrupt) {
    this.shared = new Int32Array(new SharedArrayBuffer(4 * Object.keys(PLACES).length));
    process.on("SIGINT", () => {
      this.claim();
      interrupt();
      Atomics.add(this.shared, ANSWERS, 1);
    });
    const workerData = { shared: this.shared, places: PLACES, stops: STOPS, patience_ms: PATIENCE_MS };
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
    Atomics.store(this.shared, STOP, NONE);
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

  // Until the next run nothing is stopped. A stop that is on its way happens in here.
  claim() {
    for (let stop = ON_ITS_WAY; stop !== CLAIMED; ) {
      stop = Atomics.load(this.shared, STOP);
      if (stop !== ON_ITS_WAY && Atomics.compareExchange(this.shared, STOP, stop, CLAIMED) === stop) return;
    }
  }

  // Writes what must not be cut. A stop that is wanted happens in here.
  whole(write) {
    const isWanted = () => [WANTED, ON_ITS_WAY].includes(Atomics.load(this.shared, STOP));
    Atomics.store(this.shared, IS_WRITING, 1);
    while (isWanted()) {
      Atomics.store(this.shared, IS_WRITING, 0);
      while (isWanted());
      Atomics.store(this.shared, IS_WRITING, 1);
    }
    write();
    Atomics.store(this.shared, IS_WRITING, 0);
  }
}

module.exports = { Interrupts };
