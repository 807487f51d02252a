// What people do with the playground. Each function is a test; its name says what must be so.
import assert from "node:assert/strict";
import fs from "node:fs/promises";
import { idle, outcome, output, run, write } from "./hands.mjs";

const CSV = `plant,height,note\n${Array.from({ length: 60 }, (_, at) => `${["fern", "orchid", "moss"][at % 3]},${(at * 7.31) % 60},${at % 4 ? "ok" : ""}`).join("\n")}\n`;

// How the browser and its first page are, by scenario.
export const settings = {
  a_plot_is_shown_and_kept: { hash: "#/session" },
  a_table_is_sorted: { hash: "#/session" },
  // That a handler was refused is told by the parser already, before it is taken out.
  a_page_of_a_guest_runs_nothing: { hash: "#/session", tolerates: /inline event handler violates/ },
  a_fork_leaves_its_origin_as_it_was: { hash: "#/session" },
  a_roll_back_returns_to_a_step: { hash: "#/session" },
  files_of_a_session_come_out: { hash: "#/session" },
  an_error_shows_where_it_was: { hash: "#/session" },
  an_interrupt_leaves_the_session_alive: { hash: "#/session" },
  a_session_outlives_a_reload: { hash: "#/session" },
  dark_follows_the_system_and_the_switch: { options: { colorScheme: "dark" } },
  a_phone_never_scrolls_sideways: { options: { viewport: { width: 390, height: 844 }, hasTouch: true, isMobile: true } },
};

// ---- one run ----

export async function output_is_shown_as_it_comes({ page, shot }) {
  await write(page, "import time, sys\nprint('first')\nprint('a bar: 10 %', end='\\r')\nsys.stdout.flush()\ntime.sleep(1.5)\nprint('a bar: done')\nprint('red', file=sys.stderr)");
  await page.keyboard.press("Control+Enter");
  await page.waitForFunction(() => document.querySelector("#output").textContent.includes("10 %"));
  assert.ok(await page.isVisible("#stop"), "the output came only when the run was over");
  await idle(page);
  assert.equal((await page.textContent("#output .terminal")).trim(), "first\na bar: done\nred");
  assert.equal((await page.textContent("#output .stderr")).trim(), "red");
  assert.equal(await outcome(page), "Done");
  assert.equal(await page.locator("#outcome [role=meter]").count(), 3);
  await shot("run");
}

export async function a_file_of_a_run_is_shown_and_fetched({ page, shot }) {
  await page.selectOption("#examples", "A plot, as a file");
  await run(page);
  await page.waitForFunction(() => document.querySelector(".files-out img")?.naturalWidth > 300);
  const [download] = await Promise.all([page.waitForEvent("download"), page.click("[aria-label='Download waves.png']")]);
  const content = await fs.readFile(await download.path());
  assert.equal(download.suggestedFilename(), "waves.png");
  assert.equal(content.subarray(1, 4).toString(), "PNG");
  await shot("run-plot");
}

export async function tables_and_plots_of_a_run_are_shown({ page, shot }) {
  await run(page, "import pandas, matplotlib.pyplot as plt\nplt.plot([3, 1, 2])\nplt.show()\npandas.DataFrame({'a': [1, 22]})");
  await page.waitForFunction(() => document.querySelector(".result-picture")?.naturalWidth > 300);
  assert.match(await page.textContent("#output tbody"), /22/);
  await shot("run-results");
}

export async function words_of_a_guest_stay_words({ page }) {
  await run(page, "print('<b class=bad>bold</b><img src=x onerror=\"document.title=1\">\\x1b[31mred\\x1b[0m \\x1b]0;title\\x07')");
  assert.equal(await page.locator("#output b, #output img").count(), 0);
  assert.match(await output(page), /<b class=bad>bold<\/b><img src=x onerror="document.title=1">red/);
  assert.equal(await page.textContent("#output .ansi-red"), "red");
}

export async function time_that_is_over_is_told_in_words({ page, shot }) {
  await page.selectOption("#examples", "Without an end");
  await run(page);
  assert.equal(await outcome(page), "Out of time");
  assert.match(await page.textContent("#outcome"), /still running after 2 s/);
  assert.equal(await page.locator("#outcome .bar-fill.full").count(), 1);
  await shot("run-out-of-time");
}

export async function memory_that_is_over_is_told_in_words({ page, shot }) {
  await page.click("#limits summary");
  await page.focus("#limit-memory");
  await page.keyboard.press("Home");
  assert.equal(await page.textContent("#limit-memory-value"), "64 MB");
  await shot("run-limits");
  await run(page, "x = bytearray(300 << 20)");
  assert.equal(await outcome(page), "Out of memory");
  assert.match(await page.textContent("#outcome"), /64 MB that it was given/);
}

export async function a_run_is_stopped({ page }) {
  await write(page, "import time\nprint('on', flush=True)\ntime.sleep(30)");
  await page.click("#run");
  await page.waitForFunction(() => document.querySelector("#output").textContent.includes("on"));
  await page.keyboard.press("Control+.");
  await idle(page);
  assert.equal(await outcome(page), "Stopped");
}

export async function other_languages_run_too({ page, shot }) {
  for (const [language, said] of [["javascript", "1000th prime"], ["bash", "5 squared is 25"], ["c", "####"]]) {
    await page.selectOption("#language", language);
    await run(page);
    assert.match(await output(page), new RegExp(said));
    assert.equal(await outcome(page), "Done");
  }
  await run(page, "int main(void) { return nothing; }");
  assert.equal(await outcome(page), "Did not compile");
  assert.match(await output(page), /undeclared/);
  await shot("run-compile-error");
}

export async function a_refusal_names_the_field({ page }) {
  await page.route("**/v1/run", (route) => route.fulfill({ status: 422, contentType: "application/json",
    body: '{"error":{"code":"unprocessable","message":"memory: is too much","field":"memory","hint":"at most 1G"}}' }));
  await run(page, "print(1)");
  assert.match(await page.textContent(".result-error"), /Memory: is too much\. at most 1G.*Field: memory/);
}

// ---- files ----

export async function a_dropped_file_is_given_to_runs({ page, shot }) {
  const transfer = await page.evaluateHandle((content) => {
    const data = new DataTransfer();
    data.items.add(new File([content], "garden.csv", { type: "text/csv" }));
    return data;
  }, CSV);
  await page.dispatchEvent("body", "dragenter", { dataTransfer: transfer });
  assert.ok(await page.isVisible("#drop-veil"));
  await page.dispatchEvent("body", "drop", { dataTransfer: transfer });
  await page.waitForSelector(".chip.ready.used[data-name='garden.csv']");
  assert.ok(!(await page.isVisible("#drop-veil")));
  await run(page, "print(sum(1 for line in open('/data/input/garden.csv')))");
  assert.equal((await page.textContent(".terminal")).trim(), "61");
  await page.click(".chip-name");
  await page.waitForSelector(".columns-table");
  assert.deepEqual(await page.locator(".columns-table th[scope=row]").allTextContents(), ["plant", "height", "note"]);
  assert.match(await page.textContent(".columns-table"), /15 \(25 %\)/);
  await shot("data-profile");
  await page.setInputFiles("#data-add input", { name: "second.csv", mimeType: "text/csv", buffer: Buffer.from("a,b\n1,2\n") });
  await page.waitForSelector(".profile-head h2 >> text=second.csv"); // who adds a file wants to see it
  await page.click(".profile-head [aria-label='Remove second.csv']");
  await page.waitForSelector(".profile-head h2 >> text=garden.csv");
  await page.click("text=Use in a run");
  assert.match(await page.inputValue(".editor-area"), /read_csv\("\/data\/input\/garden\.csv"\)/);
  await page.click("nav >> text=Session");
  await run(page, "import os; os.listdir('/data/input')");
  assert.match(await page.textContent("#output .result-text"), /garden\.csv/);
  await page.click("[aria-label='Remove garden.csv']");
  await page.waitForSelector(".chip", { state: "detached" });
}

// ---- sessions ----

const step = (page, at) => page.click(`.tree-row >> nth=${at}`);

export async function a_plot_is_shown_and_kept({ page, shot }) {
  await run(page, "import matplotlib.pyplot as plt\nplt.plot([3, 1, 2])\nplt.title('hello')\nplt.show()");
  await page.waitForFunction(() => document.querySelector(".result-picture")?.naturalWidth > 300);
  await run(page, "print('next')");
  assert.equal(await page.locator(".result-picture").count(), 0);
  await step(page, 1);
  await page.waitForFunction(() => document.querySelector(".result-picture")?.naturalWidth > 300);
  await shot("session-plot");
}

export async function a_table_is_sorted({ page, shot }) {
  await run(page, "import pandas as pd\npd.DataFrame({'name': ['b', 'c', 'a'], 'size': [10, 9, None]})");
  const cells = () => page.locator("#output tbody td:first-of-type").allTextContents();
  assert.deepEqual(await cells(), ["b", "c", "a"]);
  await page.click("#output th:has-text('size') button");
  assert.deepEqual(await cells(), ["c", "b", "a"]);
  await page.click("#output th:has-text('size') button");
  assert.deepEqual(await cells(), ["b", "c", "a"]); // what is missing is last both ways
  await shot("session-table");
}

export async function a_page_of_a_guest_runs_nothing({ page, base, shot }) {
  const asked = [];
  page.on("request", (request) => request.url().startsWith(base) || /^(data|blob):/.test(request.url()) || asked.push(request.url()));
  await run(page, `import cloche
cloche.HTML("""<h3>From the guest</h3><script>top.document.title = 'owned'; document.body.append('ran')</script>
<img src='http://192.0.2.1/x.png' onerror="top.document.title = 'owned'"><a href='javascript:top.document.title=1' id='a'>link</a>
<style>h3 { color: red }</style><table><tr><td>cell</td></tr></table><form action='/v1/run'><button>send</button></form>
<meta http-equiv='refresh' content='0;url=http://192.0.2.1/'><iframe src='/'></iframe>""")`);
  const frame = page.locator("iframe.result-frame");
  assert.equal(await frame.getAttribute("sandbox"), "");
  const inside = page.frameLocator("iframe.result-frame");
  assert.equal(await inside.locator("h3").textContent(), "From the guest");
  assert.match(await inside.locator("body").evaluate((body) => getComputedStyle(body).fontFamily), /Inter/, "its style sheet is missing");
  assert.equal(await inside.locator("script, iframe, meta[http-equiv=refresh]").count(), 0);
  assert.doesNotMatch(await inside.locator("body").textContent(), /ran/);
  assert.match(await page.title(), /Session/);
  assert.deepEqual(asked, [], "the page asked somebody else");
  await shot("session-page");
}

export async function a_fork_leaves_its_origin_as_it_was({ page, shot }) {
  await run(page, "x = 1");
  await page.click("text=Fork here");
  await page.waitForSelector(".tree-row:has-text('nothing run here yet')");
  assert.equal(await page.textContent("#run-text"), "Run on fork 1");
  await run(page, "x = 2\nx");
  await step(page, 1);
  assert.equal(await page.textContent("#run-text"), "Run on main");
  await run(page, "x * 100");
  assert.equal((await page.textContent("#output .result-text")).trim(), "100");
  await page.click("#compare-open");
  const columns = page.locator(".compare-column");
  assert.match(await columns.nth(0).textContent(), /x = 2/);
  assert.match(await columns.nth(1).textContent(), /x \* 100/);
  assert.match(await page.textContent("#compare .pane-head"), /part after step 1/);
  await shot("session-compare");
  await page.click("#compare button:has-text('Close')");
  assert.deepEqual(await page.locator(".tree .tag").allTextContents(), ["fork 1", "main"]);
  await shot("session-fork");
}

export async function a_roll_back_returns_to_a_step({ page, shot }) {
  for (const code of ["x = 1", "x = 2", "x = 3"]) await run(page, code);
  await step(page, 1);
  assert.equal(await page.textContent("#run-text"), "Fork and run"); // it is not the end of a branch
  await page.focus(".tree-row[aria-selected=true]");
  await page.keyboard.press("b");
  await page.waitForSelector(".tree-row[aria-selected=true]:has-text('From step 1')");
  assert.equal(await page.locator(".tree-row.left").count(), 2);
  await run(page, "x");
  assert.equal((await page.textContent("#output .result-text")).trim(), "1");
  await step(page, 2); // one that was left behind
  await run(page, "x + 40");
  assert.equal((await page.textContent("#output .result-text")).trim(), "42");
  await shot("session-roll-back");
}

export async function files_of_a_session_come_out({ page }) {
  await run(page, "n = open('words.csv', 'w').write('word,count\\nfern,3\\n')");
  assert.equal(await page.textContent(".files-out .file-name"), "words.csv");
  await page.waitForSelector(".files-out td:has-text('fern')");
  await run(page, "print('nothing new')");
  assert.equal(await page.locator(".files-out").count(), 0);
}

export async function an_error_shows_where_it_was({ page, shot }) {
  await run(page, "def f(n):\n    return 1 / n\n\nf(0)");
  assert.equal(await outcome(page), "Ended with ZeroDivisionError");
  assert.match(await page.textContent(".result-error"), /line 2, in f/);
  assert.equal(await page.locator(".tree .node.error").count(), 1);
  await shot("session-error");
}

export async function an_interrupt_leaves_the_session_alive({ page }) {
  await run(page, "x = 5");
  await write(page, "import time\nprint('on', flush=True)\ntime.sleep(30)");
  await page.click("#run");
  await page.waitForFunction(() => document.querySelector("#output").textContent.includes("on"));
  await page.click("#stop");
  await idle(page);
  assert.equal(await outcome(page), "Interrupted");
  await run(page, "x");
  assert.equal((await page.textContent("#output .result-text")).trim(), "5");
}

export async function a_session_outlives_a_reload({ page }) {
  await run(page, "kept = 'still here'");
  await page.reload();
  await page.waitForSelector(".tree-row >> nth=1");
  assert.equal(await page.textContent("#output-title"), "Step 1");
  assert.equal(await page.textContent("#run-text"), "Run");
  await run(page, "kept");
  assert.match(await page.textContent("#output .result-text"), /still here/);
  await page.click("#session-new");
  await page.waitForSelector(".tree-row", { state: "detached" });
}

// ---- the page itself ----

export async function the_keyboard_is_enough({ page }) {
  await page.focus(".editor-area");
  await page.keyboard.press("Control+A");
  await page.keyboard.type("for n in range(2):\nprint(n)"); // the second line is indented by itself
  await page.keyboard.press("Enter");
  await page.keyboard.press("Shift+Tab");
  await page.keyboard.type("print('end')");
  assert.equal(await page.inputValue(".editor-area"), "for n in range(2):\n    print(n)\nprint('end')");
  await page.keyboard.press("Control+/");
  assert.match(await page.inputValue(".editor-area"), /\n# print\('end'\)$/);
  await page.keyboard.press("Control+Z");
  await page.keyboard.press("Control+Enter");
  await page.waitForSelector("#outcome .outcome.good");
  assert.equal((await page.textContent(".terminal")).trim(), "0\n1\nend");
  await page.keyboard.press("Escape");
  await page.keyboard.press("Tab");
  assert.notEqual(await page.evaluate(() => document.activeElement.className), "editor-area");
  await page.keyboard.press("Alt+4");
  await page.waitForSelector("#page-pool:not([hidden])");
  await page.keyboard.press("?");
  assert.ok(await page.isVisible("#help-dialog"));
  await page.keyboard.press("Escape");
}

export async function a_key_is_asked_for_once_and_kept_in_the_tab({ page, shot }) {
  await page.route("**/v1/**", (route) => (route.request().headers().authorization === "Bearer right" ? route.continue()
    : route.fulfill({ status: 401, contentType: "application/json", body: '{"error":{"code":"unauthorized","message":"a key is needed"}}' })));
  await write(page, "print('with a key')");
  await page.click("#run");
  await page.waitForSelector("#key-dialog[open]");
  await page.fill("#key-input", "wrong");
  await page.keyboard.press("Enter");
  await page.waitForSelector("#key-dialog[open] .wrong:not([hidden])");
  await shot("key");
  await page.fill("#key-input", "right");
  await page.keyboard.press("Enter");
  await page.waitForSelector("#outcome .outcome.good");
  assert.equal(await page.evaluate(() => sessionStorage.getItem("cloche-key")), "right");
  assert.equal(await page.evaluate(() => localStorage.getItem("cloche-key")), null);
}

export async function the_pool_shows_its_figures({ page, shot }) {
  await run(page, "print(1)");
  await page.click("nav >> text=Pool");
  await page.waitForSelector(".pool-live.good");
  await page.waitForFunction(() => document.querySelector("[data-figure=rate] .spark-line").hasAttribute("d"));
  assert.match(await page.textContent("[data-figure=rate]"), /[1-9]\d* since the start/);
  assert.equal(await page.locator(".figure").count(), 6);
  await shot("pool");
}

const paper = (page) => page.evaluate(() => getComputedStyle(document.body).backgroundColor);

export async function dark_follows_the_system_and_the_switch({ page, shot }) {
  const dark = "rgb(19, 20, 18)";
  assert.equal(await paper(page), dark);
  await run(page, "import sys\nprint('in the dark')\nsys.exit(3)");
  await shot("dark");
  await page.click("#theme-button");
  assert.notEqual(await paper(page), dark);
  await page.reload();
  assert.notEqual(await paper(page), dark); // it was kept
  await page.click("#theme-button");
  assert.equal(await paper(page), dark);
}

export async function a_phone_never_scrolls_sideways({ page, base, shot }) {
  await run(page, "print('a long line ' * 40)");
  await shot("phone");
  for (const name of ["run", "session", "data", "pool"]) {
    await page.goto(`${base}/#/${name}`);
    const { width, viewport } = await page.evaluate(() => ({ width: document.documentElement.scrollWidth, viewport: innerWidth }));
    assert.ok(width <= viewport, `${name}: ${width} pixels on a screen of ${viewport}`);
  }
  await page.goto(`${base}/#/session`);
  await run(page, "import pandas as pd\npd.DataFrame({f'column {n}': range(3) for n in range(20)})");
  assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth));
  await shot("phone-session");
}
