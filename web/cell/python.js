// Python, by Pyodide. It wants to fetch its parts; what it asks for was handed over before.
const NOWHERE = "https://pyodide.invalid/"; // an address that nothing is ever asked from
const PAGE_BYTES = 65536;
let python = null;

const addressOf = (text) => URL.createObjectURL(new Blob([text], { type: "text/javascript" }));

// The interpreter's memory is one object; what it is refused, Python tells as a MemoryError.
function limitMemory(most) {
  const { grow } = WebAssembly.Memory.prototype;
  WebAssembly.Memory.prototype.grow = function growWithin(pages) {
    if (this.buffer.byteLength + pages * PAGE_BYTES > most) throw new RangeError("the limit of memory is reached");
    return grow.call(this, pages);
  };
}

function answerFrom(parts) {
  const { fetch, importScripts } = self;
  self.importScripts = undefined; // it tries with an address that the policy refuses
  const types = { "pyodide.asm.wasm": "application/wasm" };
  self.fetch = async (address) => {
    const name = new URL(address).pathname.slice(1);
    return new Response(parts[name], { headers: { "Content-Type": types[name] ?? "application/octet-stream" } });
  };
  return () => {
    Object.assign(self, { fetch, importScripts });
  };
}

function streamOf(kind) {
  const decoder = new TextDecoder();
  return {
    write(bytes) {
      say(kind, decoder.decode(bytes, { stream: true }));
      return bytes.length;
    },
  };
}

async function prepare(parts) {
  limitMemory(parts.memory_bytes);
  const restore = answerFrom(parts);
  const { loadPyodide } = await import(addressOf(parts["pyodide.mjs"]));
  const { default: createPyodideModule } = await import(addressOf(parts["pyodide.asm.mjs"]));
  python = await loadPyodide({ indexURL: NOWHERE, packageBaseUrl: NOWHERE, createPyodideModule, lockFileContents: JSON.parse(parts["pyodide-lock.json"]) });
  restore();
  python.setStdin({ stdin: () => undefined }); // the end, at once
  python.setStdout(streamOf("stdout"));
  python.setStderr(streamOf("stderr"));
  python.FS.mkdirTree("/lib/guest/cloche");
  for (const [name, text] of Object.entries(parts)) {
    if (name.startsWith("cloche/")) python.FS.writeFile(`/lib/guest/${name}`, text);
  }
  python.runPython("import sys; sys.path.append('/lib/guest')");
  python.pyimport("cloche.page").prepare(show, tell);
}

async function run(code) {
  // As a promise: only so can Python wait for something inside of it.
  const answer = await python.pyimport("cloche.page").run.callPromising(code);
  return { ...JSON.parse(answer), memory_bytes: python._module.HEAPU8.length };
}
