"use strict";
// process.stdout, process.stderr and process.stdin of a run.
//
// What JavaScript writes goes over the channel, so that both streams keep their order and belong to their run. What
// other programs write goes to descriptors 1 and 2, which are pipes to the host.
const fs = require("fs");
const os = require("os");
const path = require("path");
const { Readable, Writable } = require("stream");

const CHUNK_MAX = 1 << 20; // a frame holds more, but its reader should not have to wait for so much

function asBytes(data, encoding) {
  if (typeof data === "string") return Buffer.from(data, encoding);
  if (ArrayBuffer.isView(data)) return Buffer.from(data.buffer, data.byteOffset, data.byteLength);
  throw new TypeError("write takes text or bytes");
}

function makeOutput(name, fd, send) {
  const output = new Writable();
  output.fd = fd;
  // In place of the stream's own way, whose state would be in pieces after code was stopped in it.
  output.write = (data, encoding, done) => {
    if (typeof encoding === "function") [encoding, done] = [undefined, encoding];
    const bytes = asBytes(data, encoding);
    for (let at = 0; at < bytes.length; at += CHUNK_MAX) send(name, bytes.subarray(at, at + CHUNK_MAX));
    if (done) process.nextTick(done);
    return true;
  };
  output.destroy = () => output; // console.log after process.stdout.end() is a mistake that must not be the context's end
  output.end = (data, encoding) => {
    if (data !== undefined && typeof data !== "function") output.write(data, encoding);
    return output;
  };
  return output;
}

function define(name, descriptor) {
  Object.defineProperty(process, name, { configurable: true, enumerable: true, ...descriptor });
}

// `send(name, data)` takes what is written.
function replaceOutputs(send) {
  define("stdout", { value: makeOutput("stdout", 1, send), writable: true });
  define("stderr", { value: makeOutput("stderr", 2, send), writable: true });
}

// The lowest free descriptor is the next one given out: what is opened after closing 0 is 0.
function putAtZero(file) {
  fs.closeSync(0);
  return fs.openSync(file, "r") === 0;
}

class Input {
  constructor() {
    this.isGiven = false;
  }

  // Descriptor 0 is the text itself, for fs.readFileSync(0) and for programs that are started; process.stdin reads it
  // too. Without a text both are empty.
  give(text) {
    define("stdin", { get: () => (this.stream ??= this.makeStream(text ?? "")) });
    this.stream = null;
    if (text === undefined && !this.isGiven) return;
    this.isGiven = text !== undefined;
    if (!this.isGiven) {
      putAtZero("/dev/null");
      return;
    }
    const folder = fs.mkdtempSync(path.join(os.tmpdir(), "stdin-"));
    const file = path.join(folder, "text");
    try {
      fs.writeFileSync(file, text);
      if (!putAtZero(file)) throw new Error("the stdin of this run could not be prepared");
    } finally {
      fs.rmSync(folder, { recursive: true, force: true });
    }
  }

  makeStream(text) {
    const stream = Readable.from(text ? [Buffer.from(text)] : [], { objectMode: false });
    stream.fd = 0;
    return stream;
  }
}

module.exports = { replaceOutputs, Input };
