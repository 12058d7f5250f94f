/**
 * Plugins for wasmnode in AssemblyScript.
 *
 * A plugin is a module that exports a function for each operation that it has. What is not
 * exported the plugin does not have, and a capability that is not called is not imported.
 *
 *   import * as wasmnode from "./sdk";
 *
 *   export function driver_describe(length: u32): u32 {
 *     return wasmnode.driver_describe(length, (request, response) => {
 *       response.name = "mine";
 *       return null;
 *     });
 *   }
 *
 * The messages are those of abi/proto, with the same names. An instance of a plugin is in one
 * operation at a time, and the node may throw it away between any two. What aborts is a line in
 * the node's log, and a fault: compile with --use abort=sdk/host/abort.
 */

export * from "./generated";
export { Moved, abort, fail, field, log, stream_blocking, stream_close, stream_read, stream_shutdown, stream_write } from "./host";
export { task_mark, task_output, task_refresh } from "./host";
export { Json, JsonKind } from "./json";
export { MEMORY_MAX, decode, encode, fromUtf8, utf8 } from "./wire";
