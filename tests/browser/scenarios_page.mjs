// Programs that run in the page itself, and what they cannot do. Each function is a test, as in scenarios.mjs.
import assert from "node:assert/strict";
import { elsewhere } from "./elsewhere.mjs";
import { idle, outcome, output, run, write } from "./hands.mjs";

const REFUSED = /Content Security Policy|Failed to construct|Failed to fetch dynamically/;

export const settings = {
  a_program_in_the_page_reaches_nothing: { tolerates: REFUSED },
  python_in_the_page_reaches_nothing: { tolerates: REFUSED },
  the_probes_would_notice_a_cell_without_walls: { tolerates: /./ },
  a_page_of_a_guest_reaches_nobody: { tolerates: /./ },
  javascript_runs_in_the_page: { options: { colorScheme: "dark" } },
  a_phone_runs_in_the_page: { options: { viewport: { width: 390, height: 844 }, hasTouch: true, isMobile: true } },
};

async function choosePage(page, language = "python") {
  await page.selectOption("#language", language);
  await page.selectOption("#place", "page");
}

const terminal = async (page) => (await page.textContent("#output .terminal")).trim();
const traceback = (page) => page.textContent(".result-error pre");

// ---- what runs ----

export async function python_runs_in_the_page({ page, shot }) {
  const asked = [];
  page.on("request", (request) => request.method() !== "GET" && asked.push(request.url()));
  await page.focus("#place"); // by the keyboard
  await page.keyboard.press("ArrowDown");
  assert.equal(await page.textContent("#run-text"), "Run in page");
  assert.match(await page.textContent("#limits .summary-text"), /512 MB · 30 s · this page/);
  await write(page, "import asyncio, sys, time\nprint('first')\nprint('red', file=sys.stderr)\nawait asyncio.sleep(0.01)\nend = time.time() + 1.5\nwhile time.time() < end: pass\nprint('busy no more')\nsys.platform");
  await page.keyboard.press("Control+Enter");
  await page.waitForFunction(() => document.querySelector("#output").textContent.includes("red"));
  assert.ok(await page.isVisible("#stop"), "the output came only when the run was over");
  await idle(page);
  assert.equal(await terminal(page), "first\nred\nbusy no more");
  assert.equal((await page.textContent("#output .stderr")).trim(), "red");
  assert.equal((await page.textContent("#output .result.value")).trim(), "'emscripten'");
  assert.equal(await outcome(page), "Done");
  assert.match(await page.textContent("#outcome"), /this page/);
  await page.click("#outcome summary");
  assert.match(await page.textContent("#outcome .notes"), /Isolation.*browser's own.*Files.*Packages.*standard library/);
  await shot("page-python");
  assert.deepEqual(asked, [], "something was sent to the server");
}

export async function limits_hold_in_the_page({ page }) {
  await choosePage(page);
  await page.click("#limits summary");
  assert.equal(await page.locator(".limit:visible").count(), 2);
  for (const name of ["memory", "wall"]) {
    await page.focus(`#limit-${name}`);
    await page.keyboard.press("Home");
  }
  await run(page, "try:\n    x = bytearray(200 << 20)\nexcept MemoryError:\n    print('no more')\nwhile True: pass");
  assert.equal(await terminal(page), "no more");
  assert.equal(await outcome(page), "Out of time");
  assert.match(await page.textContent("#outcome"), /still running after 1 s/);
}

export async function javascript_runs_in_the_page({ page, shot }) {
  await choosePage(page, "javascript");
  await run(page, "console.log('%d of %s', 1, 'two', { a: [1, { b: new Map([[1, 'x']]) }] });\nconsole.error('red');\nsetTimeout(() => console.log('later'), 60);\n({ whole: true })");
  assert.equal(await terminal(page), "1 of two { a: [ 1, { b: Map(1) { 1 => 'x' } } ] }\nred\nlater");
  assert.match(await page.textContent("#output .result.value"), /"whole": true/);
  assert.equal(await outcome(page), "Done");
  await run(page, "const wait = (ms) => new Promise((done) => setTimeout(done, ms));\nawait wait(20);\nfunction f() {\n  throw new TypeError('no');\n}\nf();");
  assert.equal(await outcome(page), "Ended with TypeError");
  assert.equal(await traceback(page), "TypeError: no\n    at f (program.js:4:9)\n    at program.js:6:1");
  await run(page, "let a = 1;\nlet b = ;\n");
  assert.equal(await traceback(page), "program.js:2\nlet b = ;\n        ^\n\nSyntaxError: Unexpected token ';'");
  await run(page, "JSON.parse('{');\n");
  assert.match(await traceback(page), /^SyntaxError: Expected property name.*\n +at JSON.parse.*\n +at program.js:1:6$/);
  await run(page, "Promise.reject(new RangeError('nobody looks'))\n;[1].forEach(() => 0)");
  assert.equal(await outcome(page), "Ended with RangeError");
  await page.selectOption("#examples", "A page");
  await run(page);
  assert.equal(await page.frameLocator("iframe.result-frame").locator("tbody tr").count(), 8);
  await page.click("#outcome summary");
  await shot("page-javascript-dark");
}

export async function an_endless_program_in_the_page_is_stopped({ page }) {
  await choosePage(page, "javascript");
  const workers = [];
  page.on("worker", (worker) => workers.push(new Promise((ended) => worker.on("close", ended))));
  await write(page, "console.log('on');\nfor (;;) ;");
  await page.click("#run");
  await page.waitForFunction(() => document.querySelector("#output").textContent.includes("on"));
  const frames = await page.evaluate(() => new Promise((done) => { // the page goes on drawing
    let count = 0;
    const draw = () => (count += 1) < 10 ? requestAnimationFrame(draw) : done(count);
    draw();
  }));
  assert.equal(frames, 10);
  await page.keyboard.press("Control+.");
  await idle(page);
  assert.equal(await outcome(page), "Stopped");
  assert.equal(await page.locator("iframe.cell").count(), 0);
  assert.equal(workers.length, 1);
  await workers[0]; // it is really gone
}

export async function too_much_output_in_the_page_ends_it({ page }) {
  await choosePage(page, "javascript");
  await run(page, "for (;;) console.log('x'.repeat(10000));");
  assert.equal(await outcome(page), "Too much output");
  await run(page, "for (;;) postMessage({ kind: 'nonsense' });");
  assert.equal(await outcome(page), "Too much output");
  // Many lines are gathered into fewer messages, and none is lost.
  await run(page, "console.error(('x'.repeat(999) + '\\n').repeat(1100));\nfor (let n = 0; n < 50000; n++) console.log(n);");
  assert.equal(await outcome(page), "Done");
  const lines = (await output(page)).split("\n");
  const numbers = lines.slice(lines.indexOf("1"), -1); // 0 stands behind what was cut
  assert.ok(numbers.length === 49999 && numbers.every((text, at) => text === String(at + 1)));
  assert.match(lines.at(-1), /^50\.2 KB of output were cut by its limit/);
}

// What a program says is shown as its word, and as nothing else, whatever the shape.
export async function lies_of_a_program_in_the_page_stay_its_own({ page }) {
  await choosePage(page, "javascript");
  await run(page, `for (const said of [null, 1, [], { kind: "open" }, { kind: "run" }, { kind: "texts", texts: 5 }, { kind: "texts", texts: [0, ["x", "y"], ["stdout", {}], ["stdout", "<b>bold</b>"]] },
  { kind: "result", media: null }, { kind: "result", media: { "text/html": "<script>parent.document.title = 1</script><p>said</p>", "image/png": 5 } },
  { kind: "progress", fraction: "x", text: {} }, { kind: "__proto__" }, { kind: "constructor" }]) postMessage(said);
postMessage({ kind: "end", status: "constructor", exit_code: {}, error: 7, memory_bytes: "much" });
for (;;) ;`);
  assert.equal(await outcome(page), "Done");
  assert.match(await output(page), /<b>bold<\/b>/);
  assert.equal(await page.locator("#output b").count(), 0);
  assert.equal(await page.frameLocator("iframe.result-frame").locator("p").textContent(), "said");
  assert.match(await page.title(), /Run/);
}

export async function a_server_without_python_for_pages_says_so({ page, shot }) {
  await page.route("**/assets/pyodide/*", (route) => route.fulfill({ status: 404, contentType: "application/json",
    body: '{"error":{"code":"not_installed","message":"Python for browsers (Pyodide) is not installed on this server","hint":"The operator fetches it"}}' }));
  await choosePage(page);
  await run(page, "print(1)");
  assert.match(await page.textContent(".result-error"), /Not possible here.*Pyodide\) is not installed on this server\. The operator fetches it/);
  await shot("page-without-python");
}

export async function a_phone_runs_in_the_page({ page, shot }) {
  await choosePage(page, "javascript");
  await shot("page-phone-editor");
  await run(page);
  assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth));
  await page.click("#outcome summary");
  await shot("page-phone");
  await page.selectOption("#language", "bash");
  assert.ok(!(await page.isVisible("#place")));
}

// ---- what cannot be done ----

// In the program: attempts by name. What is refused throws, or says so by an event; what gets to `there` is heard there, too.
const ATTEMPTS = (there, base) => `
const there = ${JSON.stringify(there)}, base = ${JSON.stringify(base)};
const blob = (text) => URL.createObjectURL(new Blob([text], { type: "text/javascript" }));
const event = (target, good) => new Promise((resolve, reject) => {
  target.addEventListener(good, resolve);
  target.addEventListener("error", () => reject(new Error("an error event")));
});
const nested = (code) => new Promise((resolve, reject) => {
  const worker = new Worker(blob(code));
  worker.onmessage = ({ data }) => (data === "reached" ? resolve() : reject(new Error(data)));
  worker.onerror = (event) => reject(new Error(event.message));
});
const exists = (name) => { if (self[name] === undefined) throw new ReferenceError(name + " is not there"); };
const attempts = {
  fetch: () => fetch(there + "/fetch"),
  beacon: () => fetch(there + "/beacon", { mode: "no-cors", method: "POST", body: "secret", keepalive: true }),
  xhr: () => { const request = new XMLHttpRequest(); request.open("GET", there + "/xhr"); request.send(); return event(request, "load"); },
  websocket: () => event(new WebSocket(there.replace("http", "ws") + "/websocket"), "open"),
  events: () => event(new EventSource(there + "/events.events"), "open"),
  scripts: () => importScripts(there + "/scripts.js"),
  module: () => import(there + "/module.js"),
  font: () => new FontFace("x", "url(" + there + "/font)").load(),
  nested: () => nested("fetch('" + there + "/nested').then(() => postMessage('reached'), (error) => postMessage(String(error)))"),
  nested_scripts: () => nested("try { importScripts('" + there + "/nested_scripts.js'); postMessage('reached'); } catch (error) { postMessage(String(error)); }"),
  own_api: async () => { if (!(await fetch(base + "/v1/files")).ok) throw new Error("refused"); },
  own_run: async () => { const answer = await fetch(base + "/v1/run", { method: "POST", body: '{"code":"1"}' }); if (!answer.ok) throw new Error("refused"); },
  own_script: () => importScripts(base + "/assets/cell/inspect.js"),
  database: () => event(indexedDB.open("cloche-probe"), "success"),
  caches: () => caches.open("probe"),
  directory: () => navigator.storage.getDirectory(),
  locks: () => navigator.locks.request("probe", () => 1),
};
const impossible = {
  document: () => exists("document"), parent: () => exists("parent"), opener: () => exists("opener"), top: () => exists("top"), popup: () => self.open(there),
  local: () => exists("localStorage"), session: () => exists("sessionStorage"), shared: () => new SharedWorker(there), navigate: () => { "use strict"; location.href = there + "/navigate"; if (location.href.startsWith("blob:")) throw new Error("it stays"); },
  foreign: () => new Worker(there + "/foreign.js"), data: () => event(new Worker("data:text/javascript,postMessage(1)"), "message"), service: () => navigator.serviceWorker.register(there),
};
new BroadcastChannel("cloche-probe").postMessage("broadcast");
const told = {};
for (const [name, attempt] of Object.entries({ ...attempts, ...impossible })) {
  let timer;
  const late = new Promise((_, reject) => { timer = setTimeout(() => reject(new Error("nothing came")), 2500); });
  try {
    await Promise.race([attempt(), late]);
    told[name] = "reached";
  } catch (error) {
    told[name] = "refused: " + error;
  }
  clearTimeout(timer);
}
console.log(JSON.stringify({ told, able: Object.keys(attempts) }));
`;

async function attempt(page, there, base) {
  await page.evaluate(() => {
    window.broadcasts = [];
    new BroadcastChannel("cloche-probe").onmessage = ({ data }) => window.broadcasts.push(data);
  });
  await choosePage(page, "javascript");
  await run(page, ATTEMPTS(there, base));
  const { told, able } = JSON.parse(await terminal(page));
  const reached = Object.entries(told).filter(([, word]) => word === "reached").map(([name]) => name);
  return { reached, able, told, broadcasts: await page.evaluate(() => window.broadcasts) };
}

export async function a_program_in_the_page_reaches_nothing({ page, context, base }) {
  await page.evaluate(() => sessionStorage.setItem("cloche-key", "secret"));
  await elsewhere(async (there, heard) => {
    const asked = [];
    page.on("request", (request) => request.url().startsWith(`${base}/v1/run`) && asked.push(request.url()));
    const { reached, told, broadcasts } = await attempt(page, there, base);
    assert.ok(Object.keys(told).length > 25);
    assert.deepEqual(reached, [], JSON.stringify(told));
    assert.deepEqual([...heard], []);
    assert.deepEqual(asked, []);
    assert.deepEqual(broadcasts, []);
  });
  // And it would have had a process of its own: there is nothing of the page's memory in it.
  await write(page, "for (;;) ;");
  await page.click("#run");
  await page.waitForSelector("iframe.cell", { state: "attached" });
  await page.waitForFunction(() => document.querySelector("#run-state").textContent.startsWith("Running"));
  const cell = page.frames().find((frame) => frame.url().includes("/cell/"));
  await context.newCDPSession(cell); // is refused for a frame in its page's process
  await page.click("#stop");
  await idle(page);
}

// The same attempts with the frame's two walls taken away, one of which keeps each: all of them get through.
export async function the_probes_would_notice_a_cell_without_walls({ page, base }) {
  await page.route("**/assets/cell/frame.html", async (route) => {
    const response = await route.fetch();
    const { "content-security-policy": policy, ...headers } = response.headers();
    assert.match(policy, /connect-src 'none'/);
    await route.fulfill({ response, headers });
  });
  await page.route("**/assets/cell.js", async (route) => {
    const response = await route.fetch();
    const text = await response.text();
    assert.match(text, /sandbox: "allow-scripts", /);
    await route.fulfill({ response, body: text.replace('sandbox: "allow-scripts", ', "") });
  });
  await page.reload();
  await page.waitForSelector(".server-state.good");
  await elsewhere(async (there, heard) => {
    const { reached, able, told, broadcasts } = await attempt(page, there, base);
    const silent = able.filter((name) => !reached.includes(name) && !heard.has(name));
    assert.deepEqual(silent, [], JSON.stringify(told));
    assert.deepEqual(broadcasts, ["broadcast"]);
  });
}

// And how its own errors are shown: each interpreter takes a while to load.
export async function python_in_the_page_reaches_nothing({ page, base, shot }) {
  await choosePage(page);
  await elsewhere(async (there, heard) => {
    await run(page, `import js, urllib.request, socket, os
from pyodide.http import open_url, pyfetch
async def fetch(where): await pyfetch(where)
async def call(function): return function()
def ask(connection):
    connection.sendall(b"GET /socket HTTP/1.0\\r\\n\\r\\n")
    return connection.recv(9)[0]
for name, attempt in {
    "fetch": fetch("${there}/fetch"), "own": fetch("${base}/v1/files"), "xhr": call(lambda: open_url("${there}/xhr")),
    "urllib": call(lambda: urllib.request.urlopen("${there}/urllib")), "socket": call(lambda: ask(socket.create_connection(("127.0.0.1", ${new URL(there).port}), 2))),
    "websocket": call(lambda: js.WebSocket.new("${there.replace("http", "ws")}/websocket").readyState.nothing), "page": call(lambda: js.document), "process": call(lambda: os.fork()),
}.items():
    try:
        await attempt
        print(name, "reached")
    except Exception as error:
        print(name, "refused")
import cloche
display(cloche.HTML('<h3>a heading</h3>'))
async def f():
    import numpy
await f()`);
    assert.doesNotMatch(await terminal(page), /reached/);
    assert.equal((await terminal(page)).split("refused").length, 9);
    assert.deepEqual([...heard], []);
    assert.equal(await page.frameLocator("iframe.result-frame").locator("h3").textContent(), "a heading");
    assert.equal(await outcome(page), "Ended with ModuleNotFoundError");
    assert.equal(await traceback(page), 'Traceback (most recent call last):\n  File "main.py", line 22, in <module>\n    await f()\n'
      + '  File "main.py", line 21, in f\n    import numpy\nModuleNotFoundError: No module named \'numpy\'\n\n'
      + 'Only the standard library is in this page; on the server there is more.\n');
    await shot("page-python-error");
  });
}

// Pages that runs make, on the server or here: in a frame that nothing gets out of.
export async function a_page_of_a_guest_reaches_nobody({ page, context, base }) {
  await elsewhere(async (there, heard) => {
    const hostile = `<p>guest</p><img src="${there}/img"><img srcset="${there}/srcset 1x"><link rel="stylesheet" href="${there}/sheet.css"><style>@import "${there}/import.css"; p { background: url(${there}/background) }</style>
<p style="background: url(${there}/inline)">x</p><script src="${there}/script.js"></script><script>fetch("${there}/fetch"); parent.document.title = "owned"</script><iframe src="${there}/frame"></iframe>
<object data="${there}/object"></object><embed src="${there}/embed"><video src="${there}/video" poster="${there}/poster"></video><svg width="9" height="9"><image href="${there}/svg" width="9" height="9"/></svg>
<input type="image" src="${there}/input"><a href="${there}/link" id="link">link</a><svg width="60" height="20"><a href="${there}/svglink" id="svglink"><text y="15">link</text></a></svg>`;
    const names = ["img", "srcset", "sheet", "import", "background", "inline", "script", "fetch", "frame", "object", "embed", "video", "poster", "svg", "input", "link"];
    const pause = (milliseconds) => new Promise((done) => setTimeout(done, milliseconds));
    const press = async (frame) => {
      await pause(400);
      // Not by a key: one that makes its page go away is sometimes never answered.
      await Promise.race([frame.evaluate(() => document.querySelector("#link").click()).catch(() => {}), pause(3000)]);
      await pause(400);
    };
    // Without any wall all of it gets out.
    const bare = await context.newPage();
    await bare.goto(`${there}/start`);
    await bare.evaluate((html) => document.write(html), hostile);
    await press(bare.mainFrame());
    assert.deepEqual(names.filter((name) => !heard.has(name)), [], "the probes themselves");
    heard.clear();
    // In our frame: as it is made, and with what is taken out of pages put in again, so that the walls alone hold it.
    for (const isRaw of [false, true]) {
      await page.evaluate(async ({ html, raw }) => {
        const { frameOf } = await import("/assets/results.js");
        const frame = frameOf(raw ? "<i>PLACE</i>" : html);
        if (raw) frame.srcdoc = frame.srcdoc.replace("<i>PLACE</i>", () => html);
        document.querySelector("#output").replaceChildren(frame);
      }, { html: hostile, raw: isRaw });
      const frame = await (await page.$("iframe.result-frame")).contentFrame();
      assert.equal(await frame.locator("p").first().textContent(), "guest");
      assert.equal(await frame.locator("a[href]").count(), isRaw ? 2 : 0);
      await press(frame);
      assert.deepEqual([...heard], [], isRaw ? "by the walls alone" : "as it is made");
      assert.match(await page.title(), /Run/);
    }
    assert.ok(base);
  });
}
