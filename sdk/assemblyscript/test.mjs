// Runs the tests of a module, each in an instance of its own: node sdk/test.mjs build/test.wasm
// What the module imports is in the module itself: see test_host.ts. Those of a plugin that reads
// files see the directories that are named behind it, as /PATH/IN/THE/PLUGIN=DIRECTORY.
import { readFile } from "node:fs/promises";

const module = await WebAssembly.compile(await readFile(process.argv[2]));
const utf8 = new TextDecoder();
const files = "wasi_snapshot_preview1";
const readsFiles = WebAssembly.Module.imports(module).some(({ module: from }) => from === files);

// openFiles returns WASI with the directories, which Node.js warns of as an experiment.
async function openFiles() {
  process.removeAllListeners("warning");
  const { WASI } = await import("node:wasi");
  const preopens = Object.fromEntries(process.argv.slice(3).map((mount) => mount.split("=")));
  return new WASI({ version: "preview1", preopens });
}

// instantiate returns an instance, and the lines that it logs.
async function instantiate() {
  const lines = [];
  let exports = null;
  const wasi = readsFiles ? await openFiles() : null;
  const imports = wasi?.getImportObject() ?? {};
  for (const { module: from, name } of WebAssembly.Module.imports(module)) {
    if (from === files) continue;
    const group = /^wasmnode:(\w+)\/v1$/.exec(from)?.[1];
    if (!group) throw new Error(`a node has no ${from} ${name}`);
    imports[from] ??= {};
    imports[from][name] = (...args) => {
      if (group === "log") lines.push(utf8.decode(new Uint8Array(exports.memory.buffer, args[1], args[2])));
      return exports[`host_${group}_${name}`](...args);
    };
  }
  const instance = await WebAssembly.instantiate(module, imports);
  exports = instance.exports;
  if (wasi) wasi.initialize(instance);
  else exports._initialize?.();
  return { exports, lines };
}

const tests = WebAssembly.Module.exports(module).filter((e) => e.kind === "function" && e.name.startsWith("test_"));
let failed = 0;
for (const { name } of tests) {
  const { exports, lines } = await instantiate();
  try {
    exports[name]();
    console.log(`ok    ${name}`);
  } catch (error) {
    failed++;
    console.log([`FAIL  ${name}`, ...lines, error instanceof WebAssembly.RuntimeError ? "" : error].filter(Boolean).join("\n      "));
  }
}
console.log(`\n${tests.length} tests, ${failed} failed`);
process.exitCode = failed > 0 || tests.length === 0 ? 1 : 0;
