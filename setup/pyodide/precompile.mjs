// Compiles Pyodide's standard library beforehand, by its own interpreter: a third of the time until Python is ready in a page.
//   node precompile.mjs PACKAGE python_stdlib.zip       (the one in PACKAGE is read, the named one written)
import fs from "node:fs";
import path from "node:path";
import { pathToFileURL } from "node:url";

const [place, target] = process.argv.slice(2);
const { loadPyodide } = await import(pathToFileURL(path.resolve(place, "pyodide.mjs")));
const python = await loadPyodide({ indexURL: place });
python.FS.writeFile("/tmp/given.zip", fs.readFileSync(path.join(place, "python_stdlib.zip")));
python.runPython(`
import importlib._bootstrap_external, importlib.util, sys, zipfile

library = f"/lib/python{sys.version_info[0]}{sys.version_info[1]}.zip"  # where it will be, for tracebacks
with zipfile.ZipFile("/tmp/given.zip") as given, zipfile.ZipFile("/tmp/made.zip", "w", zipfile.ZIP_DEFLATED) as made:
    for info in given.infolist():
        content = given.read(info)
        made.writestr(info, content)
        if info.filename.endswith(".py"):
            code = compile(content, f"{library}/{info.filename}", "exec", dont_inherit=True)
            made.writestr(f"{info.filename}c", importlib._bootstrap_external._code_to_hash_pyc(code, importlib.util.source_hash(content), False))
`);
fs.writeFileSync(target, python.FS.readFile("/tmp/made.zip"));
