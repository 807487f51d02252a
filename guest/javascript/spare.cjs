"use strict";
// The runner of a JavaScript spare: node in a box that was started before there is code for it.
//
//     node --require .spare.cjs .spare.cjs FD
//
// Theory of operation. Node loads what is required on its command line when all of itself is there, and its program
// right after that. So this file says `ready` over the socket FD, waits for the order `main` in a read that blocks, and
// returns: from then on everything is done by node itself, as for `node FILE`. No frame of ours is on the stack, no
// handle is in the event loop, the socket is closed. The name of the program is not known when node starts: it is put in
// its place where node offers a place for that, in Module.runMain, and only once.
//
// Threads of the program load this file again, because node hands its command line on to them: there it only removes
// its traces.
const fs = require("fs");
const Module = require("module");
const { isMainThread } = require("worker_threads");

const LENGTHS_SIZE = 8;
const PROTOCOL = 1;

function send(fd, header, body = Buffer.alloc(0)) {
  const head = Buffer.from(JSON.stringify({ run: null, ...header }));
  const frame = Buffer.concat([Buffer.alloc(LENGTHS_SIZE), head, body]);
  frame.writeUInt32LE(head.length, 0);
  frame.writeUInt32LE(body.length, 4);
  for (let at = 0; at < frame.length;) at += fs.writeSync(fd, frame, at);
}

function read(fd, length) {
  const bytes = Buffer.alloc(length);
  for (let at = 0; at < length;) {
    const count = fs.readSync(fd, bytes, at, length - at);
    if (!count) process.reallyExit(0); // the host is gone
    at += count;
  }
  return bytes;
}

function receive(fd) {
  const lengths = read(fd, LENGTHS_SIZE);
  const header = JSON.parse(read(fd, lengths.readUInt32LE(0)));
  return { ...header, body: read(fd, lengths.readUInt32LE(4)) };
}

// Whether this node starts its program by the call that we stand in for.
function isKnown() {
  try {
    return process.binding("natives")["internal/main/run_main_module"].includes("Module.runMain(mainEntry)");
  } catch {
    return false;
  }
}

function removeTraces() {
  process.execArgv.splice(0);
  delete require.cache[__filename];
  for (const key of Object.keys(Module._pathCache)) delete Module._pathCache[key];
}

function takeSurroundings({ path, arguments: given, environment }) {
  process.argv.splice(1, process.argv.length, path, ...given);
  const wanted = new Map(environment.map((setting) => {
    const at = setting.indexOf("=");
    return [setting.slice(0, at), setting.slice(at + 1)];
  }));
  for (const name of Object.keys(process.env)) if (!wanted.has(name)) delete process.env[name];
  for (const [name, value] of wanted) if (process.env[name] !== value) process.env[name] = value;
}

// A bound function has no frame on the stack; and when the program looks, everything is as node made it.
function putInPlace(path) {
  const ordinary = Object.getOwnPropertyDescriptor(Module, "runMain");
  Object.defineProperty(Module, "runMain", {
    configurable: true,
    enumerable: ordinary.enumerable,
    get() {
      Object.defineProperty(Module, "runMain", ordinary);
      return ordinary.value.bind(Module, path);
    },
  });
}

// The vetter comes with the order. It only reads; what it says is said before the program is loaded.
function vet(fd, { vet: order, body, path, waits }) {
  const module = { exports: {} };
  new Function("module", "require", body.toString())(module, require);
  const report = module.exports.look(fs.readFileSync(path), order, path);
  send(fd, { type: "vet" }, Buffer.from(JSON.stringify(report)));
  if (waits) read(fd, 1); // the host lets it go
}

function main(fd) {
  if (!isKnown()) {
    send(fd, { type: "refused", text: `node ${process.versions.node} starts its programs in a way that is not known` });
    process.reallyExit(0);
  }
  send(fd, { type: "ready", protocol: PROTOCOL, language: "javascript", version: process.versions.node });
  const order = receive(fd);
  if (order.type !== "main") process.reallyExit(0);
  if (order.vet) vet(fd, order);
  fs.closeSync(fd);
  takeSurroundings(order);
  putInPlace(order.path);
}

removeTraces();
if (isMainThread) main(Number(process.argv[2]));
