/**
 * What the runner of the tests hands the imports of a plugin to: the capabilities of
 * test_capabilities.ts, and here those whose arguments are no messages.
 */

import { Node } from "./test";
import { fromUtf8 } from "./wire";

export * from "./test_capabilities";

export function host_abi_input(to: usize): void {
  memory.copy(to, Node.input.dataStart, Node.input.length);
}

export function host_abi_output(from: usize, length: u32): void {
  assert(Node.output === null, "a second answer is a fault");
  Node.output = Node.copy(from, length);
}

export function host_abi_result(to: usize): void {
  memory.copy(to, Node.staged.dataStart, Node.staged.length);
}

export function host_log_write(_level: u32, line: usize, length: u32, _fields: usize, _fieldsLength: u32): void {
  Node.lines.push(fromUtf8(Node.copy(line, length)));
}

export function host_task_refresh(): void {
  Node.ask("task_refresh", 0, 0);
}

export function host_task_output(_stream: u32, from: usize, length: u32): u64 {
  for (let i: u32 = 0; i < length; i++) Node.written.push(load<u8>(from + i));
  return 0;
}

export function host_task_mark(_stream: u32, from: usize, length: u32): u64 {
  return Node.ask("task_mark", from, length);
}

/** Is answered with the bytes that there is room for. */
export function host_stream_read(_stream: u32, to: usize, length: u32): u64 {
  const status = Node.ask("stream_read", 0, 0);
  if (status >> 32 != 0) return status;
  const count = min<u32>(Node.staged.length, length);
  memory.copy(to, Node.staged.dataStart, count);
  return count;
}

/** Takes all. */
export function host_stream_write(_stream: u32, from: usize, length: u32): u64 {
  const status = Node.ask("stream_write", from, length);
  return status >> 32 != 0 ? status : length;
}

export function host_stream_shutdown(_stream: u32): u64 {
  return Node.ask("stream_shutdown", 0, 0);
}

export function host_stream_close(_stream: u32): u64 {
  return Node.ask("stream_close", 0, 0);
}

export function host_stream_blocking(_stream: u32, _on: u32): u64 {
  return Node.ask("stream_blocking", 0, 0);
}
