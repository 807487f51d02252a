// One run against the server: its events go into a record and onto the page while they come.
import * as api from "./api.js";
import { textOf } from "./output.js";

// Fills `record`; `on(kind, payload)` is told of everything as it happens. Resolves when the run has ended, however it did.
export async function execute(path, body, { record, on = () => {}, signal }) {
  const take = {
    started: (data) => on("started", data),
    stdout: (data) => text("stdout", data),
    stderr: (data) => text("stderr", data),
    result: (data) => {
      record.add("result", data);
      on("result", data);
    },
    progress: (data) => on("progress", data),
    end: (data) => {
      record.result = withoutOutput(data, record);
    },
  };
  function text(stream, data) {
    const piece = textOf(data);
    record.add(stream, piece);
    on(stream, piece);
  }
  try {
    for await (const { event, data } of api.stream(path, body, signal)) {
      if (event === "error") throw new api.ApiError(500, data.error ? data : { error: data });
      take[event]?.(data);
    }
    if (!record.result && !record.failure) record.failure = { title: "Cut off", words: "The connection ended before the run did." };
  } catch (error) {
    if (error.name === "AbortError") record.result = { cause: "cancelled", stdout: "" };
    else record.failure = { words: api.wordsOf(error), field: error.field, status: error.status, code: error.code, title: titleOf(error) };
  }
  // Not every server streams: then all the output is in the result.
  return record;

  function withoutOutput(data, into) {
    const { stdout, stderr, results, ...rest } = data;
    if (!into.items.length) {
      if (stdout) text("stdout", { text: stdout });
      if (stderr) text("stderr", { text: stderr });
      for (const result of results ?? []) take.result(result);
    }
    compilerWords(rest, text);
    return rest;
  }
}

// Warnings of a compiler; what it says when it fails is the result's own stderr.
function compilerWords({ compile }, text) {
  if (compile?.exit_code === 0 && compile.stderr) text("stderr", { text: compile.stderr });
}

function titleOf(error) {
  if (!(error instanceof api.ApiError)) return "Not reached";
  const titles = { 429: "Too many at once", 503: "The server is busy", 501: "Not possible here", 404: "Gone", 410: "Gone", 401: "No key" };
  return titles[error.status] ?? "Refused";
}
