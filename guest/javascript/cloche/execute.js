"use strict";
// One run in a context: evaluate, and say how it ended.
//
// Theory of operation. Code is evaluated by V8 in its REPL mode, as the console of a browser does: let, const and class
// outlive the run and may be declared again, await stands at the top level, and the value of the last expression comes
// out. Only the inspector offers that mode; a session with our own process needs no port. It speaks of values as ids;
// the values themselves are put into `holder` by a function that is called on it.
const inspector = require("inspector");
const { inspect } = require("util");
const vm = require("vm");
const imports = require("./imports");

const TRACEBACK_MAX = 100000;
const OWN_FOLDER = __dirname + "/";
const RUN_URL = /cloche-run:\d+/g;
const DECLARED = /^Identifier .* has already been declared$/;
const STATIC_IMPORT = "Cannot use import statement outside a module";

class Evaluator {
  constructor() {
    this.session = new inspector.Session();
    this.session.connect();
    this.stopper = new inspector.Session(); // for use from within an evaluation
    this.stopper.connect();
    this.holder = {};
    this.names = new Map(); // of scripts, by the URL that V8 knows them by: that may have no spaces
    this.ofRuns = new WeakSet(); // errors that were made while code of a run was executed
    Error.prepareStackTrace = (error, frames) => this.writeStack(error, frames);
    globalThis.$holder = this.holder;
    this.session.post("Runtime.evaluate", { expression: "$holder" }, (_, answer) => (this.holderId = answer.result.objectId));
    delete globalThis.$holder;
  }

  // The value that V8 describes.
  take(remote) {
    if (remote.objectId === undefined && !("unserializableValue" in remote)) return remote.value;
    const given = remote.objectId !== undefined ? { objectId: remote.objectId } : { unserializableValue: remote.unserializableValue };
    this.session.post("Runtime.callFunctionOn", {
      objectId: this.holderId,
      functionDeclaration: "function (value) { this.value = value; }",
      arguments: [given],
      silent: true,
    });
    const { value } = this.holder;
    this.holder.value = undefined;
    return value;
  }

  post(expression) {
    return new Promise((resolve) => {
      const options = { expression, replMode: true, awaitPromise: true, silent: true, objectGroup: "run" };
      this.session.post("Runtime.evaluate", options, (error, answer) => resolve(error ? { error } : answer));
    });
  }

  // {value}, {isError, error, place}, or {isStopped}: by stop(), or from another thread.
  async evaluate(source, name) {
    const url = `cloche-run:${this.names.size + 1}`;
    this.names.set(url, name);
    let code = imports.rewriteDynamic(source);
    for (;;) {
      const answer = await this.post(`${code}\n//# sourceURL=${url}`);
      if (answer.error) return /terminated/.test(answer.error.message) ? { isStopped: true } : { isError: true, ...answer };
      const { exceptionDetails: details, result } = answer;
      const value = this.take(details?.exception ?? result);
      this.session.post("Runtime.releaseObjectGroup", { objectGroup: "run" });
      if (!details) return { value };
      // What does not compile has no frame of the run in its stack; what was thrown has.
      if (!(value instanceof SyntaxError) || (value.stack && this.ofRuns.has(value))) return { isError: true, error: value };
      if (value?.message === STATIC_IMPORT) {
        const next = imports.rewriteStatic(code, details.lineNumber, details.columnNumber);
        if (next !== null) {
          code = next;
          continue;
        }
        value.message = "this static import cannot be rewritten here: use `await import(…)`";
      }
      if (DECLARED.test(value.message)) { // V8 does not say where
        value.message += "; a name of an earlier run can be declared again in the same way only: by let or class, by const, by var or function";
        return { isError: true, error: value };
      }
      return { isError: true, error: value, place: { name, line: details.lineNumber, column: details.columnNumber, source } };
    }
  }

  // Ends whatever JavaScript runs now; not even a finally is executed.
  stop() {
    this.stopper.post("Runtime.terminateExecution");
    for (;;); // until it takes effect
  }

  close() {
    this.session.disconnect();
    this.stopper.disconnect();
  }

  // The stack of every error, as V8 writes it, without us: at its bottom from the inspector on, at its top where a call of
  // ours failed.
  writeStack(error, frames) {
    let title = "Error";
    try {
      title = Error.prototype.toString.call(error);
    } catch {
      // a message that cannot be read
    }
    const texts = frames.map(String);
    const bottom = texts.findIndex((text) => text.includes("(node:inspector:"));
    const theirs = texts.slice(0, bottom < 0 ? undefined : bottom).filter((text) => !text.includes(OWN_FOLDER));
    const kept = theirs.map((text) => text.replace(RUN_URL, (url) => {
      this.ofRuns.add(error);
      return this.names.get(url) ?? url;
    }));
    return [title, ...kept.map((text) => `    at ${text}`)].join("\n");
  }

  // Name, value and stack as text.
  describe(error, place) {
    let name = "Error", value, text;
    try {
      const isError = error instanceof Error;
      name = String((isError && error.name) || error?.constructor?.name || typeof error);
      value = isError ? String(error.message) : inspect(error);
      text = isError ? inspect(error) : `Uncaught ${inspect(error)}`;
      if (place) text = `${showPlace(place)}\n${name}: ${value}`;
    } catch {
      value ??= "<its text cannot be made>";
      text = `${name}: ${value}`;
    }
    return { name: name.slice(0, 1000), value: cut(value), traceback: `${cut(text)}\n` };
  }
}

function showPlace({ name, line, column, source }) {
  const lines = source.split("\n");
  if (line >= lines.length) [line, column] = [lines.length - 1, lines.at(-1).length]; // our own line stands behind
  return `${name}:${line + 1}\n${lines[line].slice(0, 1000)}\n${" ".repeat(Math.min(column, 1000))}^\n`;
}

function cut(text) {
  if (text.length <= TRACEBACK_MAX) return text;
  return `${text.slice(0, TRACEBACK_MAX / 2)}\n …\n${text.slice(-TRACEBACK_MAX / 2)}`;
}

function compileError(source) {
  try {
    new vm.Script(source, { filename: "input" });
    return null;
  } catch (error) {
    return error;
  }
}

function endsTooEarly(error) {
  return error && /Unexpected end of input|Unterminated template/.test(error.message);
}

// Of what was typed so far: complete, incomplete (ask for another line), or invalid (run it, and see why). It is
// compiled as the body of a function, where await is allowed; whether one that is not closed fails only by its end
// tells what could still become code. V8 has words of its own for a list that is not closed, which can go on with a
// comma.
function completeness(source) {
  const open = `async function typed() {\n${source}`;
  const error = compileError(`${open}\n}`);
  if (!error || error.message === STATIC_IMPORT) return "complete";
  const isInComment = /\/\*(?:(?!\*\/)[^])*$/.test(source) && !compileError(`${open}*/\n}`);
  const isOpen = endsTooEarly(compileError(open)) || endsTooEarly(compileError(`${open},`));
  return isInComment || isOpen ? "incomplete" : "invalid";
}

module.exports = { Evaluator, completeness };
