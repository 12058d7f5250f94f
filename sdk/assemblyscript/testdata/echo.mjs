// Reads messages and writes what echo.ts makes of them, in the form of ../../c/testdata/echo.c;
// with the argument "golden", prints those that it made by name: node echo.mjs echo.wasm
import { readFileSync, writeFileSync } from "node:fs";

const module = new WebAssembly.Module(readFileSync(process.argv[2]));
const line = (_level, from, length) => console.error(Buffer.from(exports.memory.buffer, from, length).toString());
const { exports } = new WebAssembly.Instance(module, { "wasmnode:log/v1": { write: line } });
exports._initialize?.();

const answer = () => Buffer.from(new Uint8Array(exports.memory.buffer, exports.answer(), exports.answerSize()));

if (process.argv[3] === "golden") {
  for (const name of ["task", "stat", "exec", "set"]) {
    exports[`golden_${name}`]();
    console.log(`${name} ${answer().toString("hex")}`);
  }
} else {
  const out = [];
  for (let rest = readFileSync(0); rest.length > 0; ) {
    const name = rest.subarray(1, 1 + rest[0]);
    const at = 1 + name.length;
    const bytes = rest.subarray(at + 4, at + 4 + rest.readUInt32LE(at));
    rest = rest.subarray(at + 4 + bytes.length);
    const room = exports.room(name.length + bytes.length);
    new Uint8Array(exports.memory.buffer).set(Buffer.concat([name, bytes]), room);
    const head = Buffer.alloc(5);
    head[0] = exports.again(name.length);
    head.writeUInt32LE(exports.answerSize(), 1);
    out.push(head, answer());
  }
  writeFileSync(1, Buffer.concat(out));
}
