// Languages, and something to begin with in each.

export const LANGUAGES = [
  { id: "python", name: "Python", sessions: true, forks: true, inPage: true, extension: "py" },
  { id: "javascript", name: "JavaScript", sessions: true, inPage: true, extension: "js" },
  { id: "typescript", name: "TypeScript", extension: "ts" },
  { id: "bash", name: "Bash", sessions: true, extension: "sh" },
  { id: "go", name: "Go", extension: "go" },
  { id: "c", name: "C", extension: "c" },
];

export const languageOf = (id) => LANGUAGES.find((language) => language.id === id) ?? LANGUAGES[0];

const example = (language, name, code, more = {}) => ({ language, name, code: `${code.trim()}\n`, ...more });

export const RUN_EXAMPLES = [
  example("python", "Hello", `
import platform, sys

print("Hello from a box that will be gone in a moment.")
print(f"Python {platform.python_version()} on {sys.platform}")
`),
  example("python", "A plot, as a file", `
import matplotlib.pyplot as plt
import numpy as np

# What is written to the working directory, /data/output, comes back.
x = np.linspace(0, 4 * np.pi, 500)
figure, axes = plt.subplots(figsize=(7, 3.4), dpi=130)
for phase in (0, 0.6, 1.2, 1.8):
    axes.plot(x, np.sin(x - phase) * np.exp(-x / 14), linewidth=1.6)
axes.set_title("Four waves, fading")
axes.grid(alpha=0.25)
figure.tight_layout()
figure.savefig("waves.png")
print("waves.png is in the files below")
`),
  example("python", "Output as it comes", `
import time

for step in range(1, 21):
    print(f"\\r[{'█' * step}{'·' * (20 - step)}] {step * 5} %", end="", flush=True)
    time.sleep(0.1)
print("\\ndone")
`),
  example("python", "Read the files given", `
import pathlib

given = sorted(pathlib.Path("/data/input").iterdir())
if not given:
    print("Drop a file on this page, then run this again.")
for path in given:
    print(f"{path.name:30} {path.stat().st_size:>12,} bytes")
`),
  example("python", "Summarise a CSV file", `
import pathlib
import pandas as pd

for path in pathlib.Path("/data/input").glob("*.csv"):
    table = pd.read_csv(path)
    print(f"== {path.name}: {len(table):,} rows, {len(table.columns)} columns")
    print(table.describe(include="all").transpose().to_string())
    table.describe().to_csv(f"summary-of-{path.name}")
`),
  example("python", "Too much memory", `
# The box ends, and the result says why. Nothing else notices.
blocks = []
while True:
    blocks.append(bytearray(16 << 20))
    print(f"{len(blocks) * 16} MB so far", flush=True)
`),
  example("python", "Without an end", `
import time

beats = 0
while True:
    time.sleep(0.25)
    beats += 1
    print("still here", beats)
`, { limits: { wall: "2s" } }),
  example("python", "No way out", `
import socket, os

for what, attempt in {
    "the network": lambda: socket.create_connection(("192.0.2.1", 80), timeout=2),
    "the passwords": lambda: open("/etc/shadow").read(),
    "other programs": lambda: os.kill(1, 9),
    "a write to /usr": lambda: open("/usr/bin/python3", "w"),
}.items():
    try:
        attempt()
        print(f"{what}: reached!")
    except OSError as error:
        print(f"{what}: {error}")
`),
  example("javascript", "Hello", `
const started = performance.now();
const primes = [];
for (let n = 2; primes.length < 1000; n++) {
  if (primes.every((p) => p * p > n || n % p)) primes.push(n);
}
console.log("the 1000th prime is", primes.at(-1));
console.log("found in", (performance.now() - started).toFixed(1), "ms by node", process.version);
`),
  example("javascript", "Streams and timers", `
const wait = (ms) => new Promise((done) => setTimeout(done, ms));

(async () => {
  for (const word of ["one", "after", "the", "other"]) {
    console.log(word);
    await wait(300);
  }
  console.error("and this went to stderr");
})();
`),
  example("typescript", "Types, then run", `
interface Plant { name: string; heightCm: number }

const plants: Plant[] = [
  { name: "basil", heightCm: 32 },
  { name: "fern", heightCm: 54 },
  { name: "moss", heightCm: 3 },
];

const fits = (plant: Plant, coverCm: number): boolean => plant.heightCm < coverCm;

for (const plant of plants) {
  console.log(\`\${plant.name.padEnd(8)} \${fits(plant, 40) ? "fits under the glass" : "is too tall"}\`);
}
`),
  example("bash", "Look around", `
echo "user:      $(id -u), host name: $(hostname)"
echo "processes: $(ls /proc | grep -c '^[0-9]')"
echo "devices:   $(ls /dev | tr '\\n' ' ')"
df -h /tmp | tail -n 1
seq 1 5 | while read -r n; do printf '%d squared is %d\\n' "$n" "$((n * n))"; done
`),
  example("go", "Goroutines", `
package main

import (
	"fmt"
	"sync"
)

func main() {
	var group sync.WaitGroup
	results := make([]int, 8)
	for i := range results {
		group.Add(1)
		go func(n int) {
			defer group.Done()
			for k := 1; k <= 1000*(n+1); k++ {
				results[n] += k
			}
		}(i)
	}
	group.Wait()
	fmt.Println("sums:", results)
}
`),
  example("c", "Close to the machine", `
#include <stdio.h>
#include <math.h>

int main(void)
{
    for (int row = 12; row >= -12; row--) {
        for (int column = -30; column <= 15; column++) {
            double x = 0, y = 0, a = column / 15.0, b = row / 12.0;
            int n = 0;
            for (; n < 60 && hypot(x, y) < 2; n++) {
                double t = x * x - y * y + a;
                y = 2 * x * y + b;
                x = t;
            }
            putchar(n == 60 ? '#' : n > 8 ? '+' : n > 4 ? '.' : ' ');
        }
        putchar('\\n');
    }
    return 0;
}
`),
];

// For runs in the page: the standard library, no files.
export const PAGE_EXAMPLES = [
  example("python", "Hello", `
import platform, sys

print("Hello from this page. Nothing of this was sent to the server.")
print(f"Python {platform.python_version()} on {sys.platform}")
sum(n * n for n in range(1000))
`),
  example("python", "A table, as a page", `
import cloche, random, statistics

random.seed(7)
rows = ""
for garden in ("orchid", "fern", "cactus"):
    heights = [random.gauss(40, 12) for _ in range(200)]
    rows += f"<tr><th>{garden}</th><td>{statistics.mean(heights):.1f}</td><td>{max(heights):.1f}</td></tr>"
cloche.HTML(f"<table><thead><tr><th></th><th>mean</th><th>tallest</th></tr></thead><tbody>{rows}</tbody></table>")
`),
  example("python", "Output as it comes", `
import asyncio

for step in range(1, 21):
    print(f"\\r[{'█' * step}{'·' * (20 - step)}] {step * 5} %", end="")
    await asyncio.sleep(0.1)
print("\\ndone")
`),
  example("python", "Without an end", `
beats = 0
while True:
    beats += 1
`, { limits: { wall: "2s" } }),
  example("python", "No way out", `
import js, urllib.request

for what, attempt in {
    "the network": lambda: urllib.request.urlopen("http://192.0.2.1/"),
    "this server": lambda: urllib.request.urlopen("http://127.0.0.1:8420/v1/files"),
    "the page": lambda: js.document.title,
    "what it stores": lambda: js.localStorage,
    "a process": lambda: __import__("subprocess").run(["ls"]),
}.items():
    try:
        attempt()
        print(f"{what}: reached!")
    except Exception as error:
        print(f"{what}: {type(error).__name__}: {error}")
`),
  example("javascript", "Hello", `
const started = performance.now();
const primes = [];
for (let n = 2; primes.length < 1000; n++) {
  if (primes.every((p) => p * p > n || n % p)) primes.push(n);
}
console.log("the 1000th prime is", primes.at(-1));
console.log("found in", (performance.now() - started).toFixed(1), "ms by this browser");
primes.slice(-3)
`),
  example("javascript", "Streams and timers", `
const wait = (ms) => new Promise((done) => setTimeout(done, ms));

for (const word of ["one", "after", "the", "other"]) {
  console.log(word);
  await wait(300);
}
console.error("and this went to stderr");
`),
  example("javascript", "A page", `
const rows = Array.from({ length: 8 }, (_, n) => \`<tr><td>\${n}</td><td>\${2 ** n}</td></tr>\`);
new cloche.HTML(\`<table><thead><tr><th>n</th><th>2 to the n</th></tr></thead><tbody>\${rows.join("")}</tbody></table>\`)
`),
  example("javascript", "No way out", `
const attempts = {
  "the network": () => fetch("http://192.0.2.1/"),
  "this server": () => fetch("http://127.0.0.1:8420/v1/files"),
  "the page": () => parent.document,
  "what it stores": () => indexedDB.open("cloche"),
};
for (const [what, attempt] of Object.entries(attempts)) {
  try {
    await attempt();
    console.log(\`\${what}: reached!\`);
  } catch (error) {
    console.log(\`\${what}: \${error}\`);
  }
}
`),
];

export const SESSION_EXAMPLES = [
  example("python", "1 · Make some data", `
import numpy as np
import pandas as pd

random = np.random.default_rng(7)
days = pd.date_range("2025-01-01", periods=365)
table = pd.DataFrame({
    "day": days,
    "visitors": (200 + 80 * np.sin(np.arange(365) / 58) + random.normal(0, 25, 365)).round().astype(int),
    "garden": random.choice(["orchid", "fern", "cactus"], 365),
})
table.head(12)
`),
  example("python", "2 · Draw it", `
import matplotlib.pyplot as plt

weekly = table.set_index("day")["visitors"].resample("W").mean()
figure, axes = plt.subplots(figsize=(7, 3.2), dpi=130)
axes.fill_between(weekly.index, weekly, alpha=0.18)
axes.plot(weekly.index, weekly)
axes.set_ylabel("visitors a day")
axes.grid(alpha=0.25)
figure.tight_layout()
plt.show()
`),
  example("python", "3 · One way (fork before it)", `
table["visitors"] = table["visitors"].clip(lower=150)
table.groupby("garden")["visitors"].agg(["count", "mean", "max"]).round(1)
`),
  example("python", "3 · Another way", `
table = table[table["garden"] != "cactus"]
table.groupby("garden")["visitors"].agg(["count", "mean", "max"]).round(1)
`),
  example("python", "An error", `
def depth(n):
    return 1 / n if n == 0 else depth(n - 1)

depth(3)
`),
  example("javascript", "Values stay", `
let seen = new Map();
for (const word of "to be or not to be".split(" ")) seen.set(word, (seen.get(word) ?? 0) + 1);
Object.fromEntries(seen)
`),
  example("bash", "A shell that stays", `
cd /tmp
greeting="hello from $PWD"
echo "$greeting"
`),
];

// What reads a given file, for a click on it.
export function readerOf(name, format) {
  const path = JSON.stringify(`/data/input/${name}`);
  const kind = (format ?? name.split(".").pop()).toLowerCase();
  const readers = { csv: "read_csv", tsv: "read_table", parquet: "read_parquet", json: "read_json", jsonl: "read_json", ndjson: "read_json", xlsx: "read_excel" };
  const reader = readers[kind];
  if (!reader) return `text = open(${path}, errors="replace").read()\nprint(f"{len(text):,} characters")\nprint(text[:1000])\n`;
  const more = kind === "jsonl" || kind === "ndjson" ? ", lines=True" : "";
  return `import pandas as pd\n\ntable = pd.${reader}(${path}${more})\nprint(f"{len(table):,} rows")\nprint(table.head(20).to_string())\n`;
}
