"use strict";
// Messages between the runner and the host, see docs/runner-protocol.md.
//
// What comes is read by the event loop, which makes the socket non-blocking; what goes is written at once, so that
// nothing is lost when the code then loops for ever or dies.
const fs = require("fs");
const net = require("net");

const LENGTHS_SIZE = 8;
const HEADER_MAX = 1 << 20;
const BODY_MAX = 64 << 20;
const nobody = new Int32Array(new SharedArrayBuffer(4));

function sleep(milliseconds) {
  Atomics.wait(nobody, 0, 0, milliseconds);
}

// The host takes no JSON with half a character or a NUL in it.
function toJSON(value) {
  return JSON.stringify(value).replace(/\\(?:u(?:d[89a-f]..|0000)|.)/g, (escape) => (/^\\u[d0]/.test(escape) ? "\ufffd" : escape));
}

class Channel {
  constructor(fd) {
    this.fd = fd;
    this.pending = [];
    this.pendingLength = 0;
  }

  send(header, body = Buffer.alloc(0)) {
    const head = Buffer.from(toJSON(header));
    const lengths = Buffer.alloc(LENGTHS_SIZE);
    lengths.writeUInt32LE(head.length, 0);
    lengths.writeUInt32LE(body.length, 4);
    this.write(Buffer.concat([lengths, head, body]));
  }

  write(frame) {
    for (let at = 0; at < frame.length;) {
      try {
        at += fs.writeSync(this.fd, frame, at);
      } catch (error) {
        if (error.code !== "EAGAIN") throw error;
        sleep(1); // the host is behind: its end of the socket is full
      }
    }
  }

  // Calls take(header, body) for every frame, and closed() when the host is gone.
  listen(take, closed) {
    const socket = new net.Socket({ fd: this.fd, readable: true, writable: false });
    socket.on("data", (data) => {
      this.pending.push(data);
      this.pendingLength += data.length;
      try {
        for (let frame = this.next(); frame; frame = this.next()) take(...frame);
      } catch {
        closed(); // not a frame: the host has lost its way
      }
    });
    socket.on("error", closed);
    socket.on("end", closed);
  }

  next() {
    if (this.pendingLength < LENGTHS_SIZE) return null;
    if (this.pending[0].length < LENGTHS_SIZE) this.join();
    const headLength = this.pending[0].readUInt32LE(0);
    const bodyLength = this.pending[0].readUInt32LE(4);
    if (headLength > HEADER_MAX || bodyLength > BODY_MAX) throw new Error("the host sent a frame that is too large");
    const length = LENGTHS_SIZE + headLength + bodyLength;
    if (this.pendingLength < length) return null; // joined once, when all of it is there
    const all = this.join();
    this.pending = [all.subarray(length)];
    this.pendingLength -= length;
    const body = LENGTHS_SIZE + headLength;
    return [JSON.parse(all.subarray(LENGTHS_SIZE, body)), Buffer.from(all.subarray(body, length))];
  }

  join() {
    this.pending = [Buffer.concat(this.pending)];
    return this.pending[0];
  }
}

module.exports = { Channel, BODY_MAX };
