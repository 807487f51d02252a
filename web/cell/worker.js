// What every program in a page has around it: it is told what to do, and tells what happens. The code that follows in the
// same text (python.js, javascript.js) has `prepare` and `run`.
const tell = self.postMessage.bind(self);
const TEXTS_AS_BASE64 = /^image\/(png|jpeg|gif|webp)$/;

function toBase64(bytes) {
  let text = "";
  for (let at = 0; at < bytes.length; at += 0x8000) text += String.fromCharCode(...bytes.subarray(at, at + 0x8000));
  return btoa(text);
}

// Pairs of media type and bytes, as the server's events have them.
function show(isValue, pairs) {
  const media = {};
  for (const [type, bytes] of pairs) media[type] = TEXTS_AS_BASE64.test(type) ? toBase64(bytes) : new TextDecoder().decode(bytes);
  flush();
  tell({ kind: "result", is_value: isValue, media });
}

// Text goes out at once, as long as that is not thousands of messages: then it is gathered, for a message costs more than a
// line. What is gathered goes with the next message that may go, at the latest when the program waits or ends.
const BURST = 2000;
const PER_MS = 0.1;
const GATHERED_MAX = 65536;
const { setTimeout: later, clearTimeout: never } = self; // the program may have its own
let credit = BURST;
let counted = performance.now();
let gathered = [];
let size = 0;
let waking = null;

function say(kind, text) {
  const now = performance.now();
  credit = Math.min(BURST, credit + (now - counted) * PER_MS);
  counted = now;
  const last = gathered.at(-1);
  if (last?.[0] === kind) last[1] += text;
  else gathered.push([kind, text]);
  size += text.length;
  if (credit >= 1 || size > GATHERED_MAX) flush();
  else waking ??= later(flush, 20);
}

function flush() {
  never(waking);
  waking = null;
  if (!gathered.length) return;
  tell({ kind: "texts", texts: gathered });
  credit -= 1;
  gathered = [];
  size = 0;
}

const duties = {
  async prepare({ parts }) {
    try {
      await prepare(parts);
      tell({ kind: "ready" });
    } catch (error) {
      tell({ kind: "failed", words: String(error) });
    }
  },
  async run({ code }) {
    const end = await run(code);
    flush();
    tell({ kind: "end", ...end });
  },
};

self.addEventListener("message", ({ data }) => duties[data.kind](data));
