// Engines and the first filter in the playground. Each function is a test; its name says what must be so.
import assert from "node:assert/strict";
import { outcome, output, run, write } from "./hands.mjs";

export const settings = {
  findings_are_read_in_the_dark_and_on_a_phone: { options: { colorScheme: "dark", viewport: { width: 390, height: 844 }, hasTouch: true, isMobile: true } },
};

const WANTED = "import json\nimport subprocess\n\ndata = {'__class__': 1}\nprint(json.dumps(data))";

const names = (page, legend) => page.locator(`fieldset:has(legend:has-text("${legend}")) .choice:visible`).allTextContents();
const chosen = (page, name) => page.locator(`input[name=${name}]:checked`).getAttribute("value");

async function open(page) {
  const asked = page.waitForResponse("**/v1/doctor");
  await page.click("#limits summary");
  return (await asked).json();
}

const press = (page, id) => page.click(`.choice[data-choice=${id}]`);

async function sent(page, act) {
  const [request] = await Promise.all([page.waitForRequest("**/v1/run"), act()]);
  return request.postDataJSON();
}

// ---- engines ----

export async function the_engines_of_the_server_are_offered({ page, shot }) {
  const told = await open(page);
  const usable = told.engines.filter((engine) => engine.usable).map((engine) => engine.isolation);
  assert.ok(usable.length > 1);
  await page.waitForFunction((count) => document.querySelectorAll("input[name=isolation]").length === count, usable.length + 1);
  assert.deepEqual((await names(page, "Isolation")).map((name) => name.toLowerCase()), ["auto", ...["process", "wasm", "container", "gvisor"].filter((name) => usable.includes(name))]);
  assert.equal(await chosen(page, "isolation"), told.default);
  await shot("engines");
  const body = await sent(page, () => run(page, "print(1)"));
  assert.ok(!("isolation" in body) && !("vet" in body), "what is the default is not sent: a box that waits serves it");
}

export async function an_engine_that_does_not_work_is_not_offered({ page }) {
  await page.route("**/v1/doctor", (route) => route.fulfill({ contentType: "application/json", body: JSON.stringify({ version: "0", default: "gvisor",
    minimum: "wasm", engines: ["process", "wasm", "container", "gvisor"].map((isolation) => ({ isolation, usable: isolation !== "container", layers: [] })) }) }));
  await open(page);
  await page.waitForSelector(".choice[data-choice=gvisor]");
  assert.deepEqual(await names(page, "Isolation"), ["Auto", "Wasm", "gVisor"]);
  assert.equal(await chosen(page, "isolation"), "gvisor");
  assert.match(await page.textContent("#limits summary"), /gvisor/);
}

export async function what_auto_chose_is_told_with_its_reason({ page, shot }) {
  await open(page);
  await press(page, "auto");
  assert.match(await page.textContent("#limits summary"), /auto/);
  await run(page, "print(sum(range(10)))");
  assert.equal(await outcome(page), "Done");
  assert.match(await page.textContent("#outcome .chosen"), /^Auto chose (process|wasm|container|gvisor): \w+/);
  await shot("auto");
}

export async function a_trap_is_told_in_words({ page }) {
  await page.route("**/v1/run", (route) => route.fulfill({ contentType: "application/json", body: JSON.stringify({ id: "run_1", cause: "trap", trap: "all fuel consumed",
    exit_code: null, signal: null, stdout: "", stderr: "", files: [], isolation: "wasm", layers: [], usage: { wall_ms: 3 } }) }));
  await run(page, "while True: pass");
  assert.equal(await outcome(page), "Ended by a trap");
  assert.match(await page.textContent("#outcome"), /all fuel consumed/);
}

export async function sessions_are_offered_only_what_they_have({ page, base }) {
  await open(page);
  await page.waitForSelector(".choice[data-choice=gvisor], .choice[data-choice=wasm]");
  await press(page, "auto");
  await page.goto(`${base}/#/session`);
  await page.waitForSelector("#history:not([hidden])");
  const offered = await names(page, "Isolation");
  assert.ok(offered.includes("Container") && !offered.includes("Auto") && !offered.includes("Wasm"), offered.join());
  assert.deepEqual(await names(page, "First filter"), []);
  await page.keyboard.press("Escape");
  await run(page, "1 + 1");
  assert.equal((await page.textContent("#output .result-text")).trim(), "2");
}

// ---- the first filter ----

export async function findings_lead_to_their_place({ page, shot }) {
  await open(page);
  await press(page, "warn");
  const body = await sent(page, () => run(page, WANTED));
  assert.equal(body.vet, "warn");
  assert.equal(await outcome(page), "Done");
  assert.match(await output(page), /"__class__": 1/);
  const found = page.locator(".finding");
  assert.deepEqual(await found.locator(".finding-place").allTextContents(), ["2:8", "4:9"]);
  assert.deepEqual(await found.locator(".finding-rule").allTextContents(), ["module", "text"]);
  assert.deepEqual(await found.evaluateAll((items) => items.map((item) => item.classList.contains("note"))), [false, true]);
  assert.match(await found.first().textContent(), /starts other programs.*do it in Python itself/);
  assert.match(await page.textContent(".findings h3"), /1 warning, 1 note/);
  assert.deepEqual(await page.locator(".editor-gutter .found").allTextContents(), ["2", "4"]);
  await shot("findings");
  await found.locator("button").first().click();
  const cursor = () => page.evaluate(() => ({ ...["selectionStart", "selectionEnd"].map((name) => document.activeElement[name]) }));
  assert.deepEqual(await cursor(), { 0: WANTED.indexOf("subprocess"), 1: WANTED.indexOf("subprocess") + 10 });
  assert.equal(await page.textContent(".editor-gutter .current"), "2");
  await found.locator("button").nth(1).focus(); // and by the keyboard
  await page.keyboard.press("Enter");
  assert.deepEqual((await cursor())[0], WANTED.indexOf("'__class__'"));
  await page.keyboard.type("x");
  assert.equal(await page.locator(".editor-gutter .found").count(), 0, "the text is another now");
}

export async function blocked_code_says_why_it_did_not_run({ page, shot }) {
  await open(page);
  await page.focus(".choice[data-choice=usual] input");
  for (const _ of ["off", "warn", "block"]) await page.keyboard.press("ArrowRight");
  assert.equal(await chosen(page, "vet"), "block");
  assert.match(await page.textContent("#limits summary"), /filter: block/);
  await page.keyboard.press("Escape");
  await run(page, WANTED);
  assert.equal(await outcome(page), "Did not run");
  assert.match(await page.textContent("#outcome"), /1 finding, the first in line 2/);
  assert.match(await page.textContent(".findings h3"), /Blocked by the first filter/);
  assert.equal(await page.locator("#output .terminal").count(), 0);
  await shot("blocked");
  await run(page, WANTED.replace("import subprocess", ""));
  assert.equal(await outcome(page), "Done", "a note does not block");
  await page.reload();
  assert.equal(await chosen(page, "vet"), "block", "it is kept in the tab");
}

export async function words_of_findings_stay_words({ page }) {
  const vet = { mode: "warn", facts: null, findings: [{ line: 99, column: 999, rule: "module", severity: "warning", message: "<img src=x onerror=alert(1)>", advice: "<b>bold</b>" }] };
  await page.route("**/v1/run", (route) => route.fulfill({ contentType: "application/json", body: JSON.stringify({ id: "run_1", cause: "exit", exit_code: 0,
    signal: null, stdout: "", stderr: "", files: [], isolation: "container", layers: [], usage: {}, vet }) }));
  await run(page, "x = 1");
  assert.match(await page.textContent(".finding"), /<img src=x onerror=alert\(1\)><b>bold<\/b>/);
  assert.equal(await page.locator(".finding img, .finding b").count(), 0);
  await page.click(".finding button"); // a place that is not there
  assert.equal(await page.evaluate(() => document.activeElement.className), "editor-area");
}

export async function a_package_that_is_missing_is_told_after_a_run({ page }) {
  await page.selectOption("#language", "javascript");
  await run(page, "const x = 1;\nrequire('no-such-package-x')");
  assert.match(await page.textContent(".finding.note"), /2:1.*no-such-package-x.*missing/);
}

export async function findings_are_read_in_the_dark_and_on_a_phone({ page, shot }) {
  await open(page);
  await page.waitForSelector(".choice[data-choice=gvisor], .choice[data-choice=wasm]");
  await shot("engines-phone-dark");
  const panel = await page.locator("#limit-controls").boundingBox();
  assert.ok(panel.x >= 0 && panel.x + panel.width <= 390, `the panel is at ${panel.x}, and ${panel.width} wide`);
  assert.ok(panel.y >= 52 && panel.y + panel.height <= 844, `the panel is at ${panel.y}, and ${panel.height} high`);
  await press(page, "block");
  await write(page, `${WANTED}\n${"x = 'a long line ' * 3\n".repeat(40)}`);
  await run(page);
  assert.equal(await outcome(page), "Did not run");
  assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth));
  await page.locator(".findings").scrollIntoViewIfNeeded();
  await shot("findings-phone-dark");
  await page.tap(".finding button");
  await page.waitForFunction(() => {
    const { top, bottom } = document.querySelector(".editor-gutter .current").getBoundingClientRect();
    return top >= document.querySelector(".top").getBoundingClientRect().bottom && bottom <= innerHeight;
  });
}
